"""The private parts of FastMCP and the MCP SDK that the server needs; extras/teams/auth.py overrides three more.

They may change in any minor release, so pyproject.toml limits both packages to the minor releases that
tests/tools/test_fastmcp_adapter.py names.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import getdoc
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.prompts import function_prompt
from fastmcp.tools import function_parsing
from fastmcp.utilities.docstring_parsing import ParsedDocstring
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateSecurity, authenticated_principal
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, InputRequiredResult

from vector_memory.server.jsonrpc import repaired

if TYPE_CHECKING:  # only HTTP and relays need them
    from fastmcp import Client
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vector_memory.settings import HttpOptions

__all__ = [
    "MemoryServer",
    "MessageStream",
    "RequestStateSecurity",
    "ServerRequestContext",
    "SessionMessage",
    "authenticated_principal",
    "call_once",
    "coerce_request_id",
    "create_client_server_memory_streams",
    "http_app",
    "serve_streams",
]


def read_docstring(function: object) -> ParsedDocstring:
    """Return what a docstring says of a function and its arguments. FastMCP would import griffe, which takes 50 ms."""
    said, _, arguments = (getdoc(function) or "").partition("\n\nArgs:\n")
    named = (line.strip().partition(": ") for line in arguments.splitlines())
    return ParsedDocstring(said or None, {name: text for name, _, text in named})


for _module in (function_parsing, function_prompt):
    _module.parse_docstring = read_docstring  # type: ignore[attr-defined]


class NoState:
    """The state that FastMCP finds for a client: none."""

    async def get(self, key: str) -> None:
        """Return None."""


class MemoryServer(FastMCP):
    """FastMCP without per-client state, whose store takes 0.15 s to import at the first request."""

    @property
    def _state_store(self) -> Any:
        return NoState()


async def serve_streams(server: FastMCP, streams: AbstractAsyncContextManager[MessageStream]) -> None:
    """Open a pair of streams once the server's lifespan has started, and serve a client until it disconnects.

    `FastMCP.run_stdio_async` does the same, but only over the SDK's own streams.
    """
    async with server._lifespan_manager(), streams as (incoming, outgoing):  # noqa: SLF001 - see the module's docstring
        kernel = server._mcp_server  # noqa: SLF001 - see the module's docstring
        await kernel.run(incoming, outgoing, kernel.create_initialization_options())


async def call_once(
    client: "Client[Any]", tool: str, arguments: dict[str, Any], **options: Any
) -> CallToolResult | InputRequiredResult:
    """Call a tool and return its answer as it is: a question to the user is not answered, and no schema is applied.

    `options`: of `ClientSession.call_tool`. `Client.call_tool` would answer questions, and list all tools each time.
    """
    session = client.session
    session._tool_output_schemas[tool] = None  # noqa: SLF001 - see the module's docstring
    calling = session.call_tool(tool, arguments, allow_input_required=True, **options)
    # It fails when the connection does; the call alone would wait for ever.
    answer: CallToolResult | InputRequiredResult = await client._await_with_session_monitoring(calling)  # noqa: SLF001
    return answer


def reading_repaired(app: "ASGIApp") -> "ASGIApp":
    """Return an application that gets requests without what it would refuse, as over standard input.

    Bodies arrive in one piece.
    """

    async def read(scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def receive_repaired() -> "Message":
            message = await receive()
            return {**message, "body": repaired(message["body"])} if message.get("body") else message

        await app(scope, receive_repaired, send)

    return read


def http_app(server: FastMCP, http: "HttpOptions", max_body: int) -> "Starlette":
    """Return a server's application for streamable HTTP, without sessions, at `/mcp`.

    `max_body`: bytes of a request; FastMCP has no setting for it.
    """
    app = server.http_app(
        stateless_http=True, host_origin_protection=True, allowed_hosts=http.hosts(), allowed_origins=http.origins()
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(current: "Starlette") -> AsyncIterator[Any]:
        async with inner(current) as state:
            for route in app.routes:
                endpoint = getattr(route, "endpoint", None)
                manager = getattr(getattr(endpoint, "app", endpoint), "session_manager", None)
                if manager is not None:
                    manager.asgi_app.max_body_size = max_body
                    manager.asgi_app.app = reading_repaired(manager.asgi_app.app)
            yield state

    app.router.lifespan_context = lifespan
    app.router.redirect_slashes = False  # a redirection names the scheme that the proxy speaks to this server
    return app
