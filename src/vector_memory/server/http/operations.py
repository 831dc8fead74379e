"""Readiness and figures for those who run the server: both need a token with the scope admin."""

from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vector_memory.server.http.metrics import Metrics
from vector_memory.tenancy.callers import Permission
from vector_memory.tenancy.namespaces import Namespaces

READINESS = "/readyz"
METRICS = "/metrics"


def add_operations(app: Starlette, namespaces: Namespaces, metrics: Metrics) -> None:
    """Add the routes to an application that knows who calls."""

    @requires(Permission.ADMIN, status_code=404)
    def ready(request: Request) -> Response:  # noqa: ARG001 - the decorator reads it
        if (problem := namespaces.problem()) is not None:
            return PlainTextResponse(f"{problem}\n", 503)
        return PlainTextResponse("ready\n")

    @requires(Permission.ADMIN, status_code=404)
    def figures(request: Request) -> Response:  # noqa: ARG001 - the decorator reads it
        return PlainTextResponse(metrics.as_text(namespaces), media_type="text/plain; version=0.0.4")

    app.add_route(READINESS, ready, methods=["GET"])
    app.add_route(METRICS, figures, methods=["GET"])
