"""Readiness and figures for those who run the server: both need a token with the scope admin, not limited to sessions.

Figures name all namespaces.
"""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vector_memory.server.current_store import current_caller
from vector_memory.server.http.metrics import Metrics
from vector_memory.tenancy.callers import Permission
from vector_memory.tenancy.namespaces import Namespaces

READINESS = "/readyz"
METRICS = "/metrics"


def add_operations(app: Starlette, namespaces: Namespaces, metrics: Metrics) -> None:
    """Add the routes to an application that knows who calls."""

    def ready() -> Response:
        if (problem := namespaces.problem()) is not None:
            return PlainTextResponse(f"{problem}\n", 503)
        return PlainTextResponse("\n".join(["ready", *filter(None, [namespaces.registry.tokens.problem()]), ""]))

    def figures() -> Response:
        return PlainTextResponse(metrics.as_text(namespaces), media_type="text/plain; version=0.0.4")

    app.add_route(READINESS, for_operators(ready), methods=["GET"])
    app.add_route(METRICS, for_operators(figures), methods=["GET"])


def for_operators(answer: Callable[[], Response]) -> Callable[[Request], Response]:
    """Return a route that answers those who may know of all namespaces; for others it does not exist."""

    @requires(Permission.ADMIN, status_code=404)
    def route(request: Request) -> Response:  # noqa: ARG001 - the decorator reads it
        if current_caller().sessions is not None:
            raise HTTPException(404)
        return answer()

    return route
