"""The private parts of FastMCP and the MCP SDK that the server needs, in one place.

They may change in any minor release, so pyproject.toml limits both packages to the minor releases that
tests/tools/test_fastmcp_adapter.py names.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any

from fastmcp import FastMCP
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage

__all__ = [
    "MemoryServer",
    "MessageStream",
    "SessionMessage",
    "coerce_request_id",
    "create_client_server_memory_streams",
    "serve_streams",
]


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
