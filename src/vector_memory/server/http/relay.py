"""A server over standard input and output that hands every call on to a shared memory over HTTP.

For clients that cannot speak HTTP, and for hooks. If the shared memory cannot be reached, that is said at once; what
would be stored is kept on this machine and sent, in order, when it is back.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp import MCPError
from mcp_types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    ReadResourceRequestParams,
    TextContent,
    TextResourceContents,
)

from vector_memory import __version__
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.results.sessions import Result
from vector_memory.server.app import instructions_for
from vector_memory.server.fastmcp_adapter import MemoryServer
from vector_memory.server.hooks import HOOKS
from vector_memory.server.http.outbox import Outbox, Waiting
from vector_memory.server.prompts import add_prompts
from vector_memory.server.resources import add_resources
from vector_memory.server.tools import offered
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.settings import ServerOptions

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_ATTEMPTS = 2.0
SECONDS_TO_CONNECT = 5.0

FINAL = frozenset({"ValidationError", "AccessDenied"})
"""Errors of a call that will fail each time it is repeated. A duplicate is one: it is stored already."""


class Remote:
    """The shared memory. Each call has a connection of its own, so that nothing breaks when the server restarts."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client[StreamableHttpTransport]]:
        """Yield a connected client.

        Raises DatabaseError if the server cannot be reached, refuses the token, or is gone before it has answered.
        """
        transport = StreamableHttpTransport(self._url, headers=self._headers)
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(Client(transport, init_timeout=SECONDS_TO_CONNECT))
            except Exception as error:  # the client raises whatever its transport did
                raise await self._unreachable() from error
            try:
                yield client
            except (MCPError, VectorMemoryError):
                raise
            except Exception as error:
                raise await self._unreachable() from error

    async def _unreachable(self) -> DatabaseError:
        """Return the error for a failed connection. The client does not tell a refused token from a broken network."""
        try:
            async with httpx2.AsyncClient(headers=self._headers, timeout=SECONDS_TO_CONNECT) as client:
                is_refused = (await client.post(self._url)).status_code == httpx2.codes.UNAUTHORIZED
        except httpx2.HTTPError:
            is_refused = False
        reason = "refuses the token" if is_refused else "cannot be reached"
        return DatabaseError(f"The shared memory at {self._url} {reason}: tell the user.")

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. Raises DatabaseError if the server cannot be reached, or is ending."""
        try:
            async with self.client() as client:
                answer = await client.call_tool(tool, arguments, raise_on_error=False)
        except MCPError as error:  # our tools answer with their own errors: this one is of the connection
            raise await self._unreachable() from error
        return ToolResult(
            content=answer.content, structured_content=answer.structured_content, is_error=answer.is_error
        )


class Relay(Middleware):
    """Answers from the shared memory, and keeps what cannot be stored there yet."""

    def __init__(self, remote: Remote, outbox: Outbox) -> None:
        self._remote = remote
        self._outbox = outbox

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """List the tools that the token permits; all of them if the shared memory cannot be reached."""
        tools = await call_next(context)
        try:
            async with self._remote.client() as client:
                permitted = {tool.name for tool in await client.list_tools()}
        except VectorMemoryError:
            return tools
        return [tool for tool in tools if tool.name in permitted]

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],  # noqa: ARG002 - no tool runs here
    ) -> ToolResult:
        """Hand a call on, or keep it if it stores and the shared memory cannot be reached."""
        name, arguments = context.message.name, context.message.arguments or {}
        stores = name.startswith(("store_", "hook_"))
        try:
            if stores and not self._outbox.is_empty():  # in order: behind those that wait
                return self._keep(name, arguments)
            return await self._remote.call(name, arguments)
        except DatabaseError as error:
            return self._keep(name, arguments) if stores else failed_result(Result, error)

    async def on_read_resource(
        self, context: MiddlewareContext[ReadResourceRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Read a resource of the shared memory."""
        del call_next
        with protocol_errors("resources/read"):
            async with self._remote.client() as client:
                found = await client.read_resource(context.message.uri)
        return ResourceResult(
            [
                ResourceContent(one.text, mime_type=one.mime_type)
                for one in found
                if isinstance(one, TextResourceContents)
            ]
        )

    async def on_get_prompt(
        self, context: MiddlewareContext[GetPromptRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return a prompt that the shared memory has filled in."""
        del call_next
        with protocol_errors(context.message.name):
            async with self._remote.client() as client:
                found = await client.get_prompt(context.message.name, context.message.arguments)
        return PromptResult([Message(one.content, role=one.role) for one in found.messages])

    async def send_waiting(self) -> None:
        """Send what waits, the oldest first, until the shared memory cannot be reached. Another process may do so."""
        with self._outbox.sending() as may_send:
            if may_send:
                for call in self._outbox.waiting():
                    if not await self._sent(call):
                        return

    async def _sent(self, call: Waiting) -> bool:
        """Send a call that waits; False: later ones have to wait, too."""
        try:
            answer = await self._remote.call(call.tool, call.arguments)
        except DatabaseError as error:
            logger.debug("Not sent yet: %s", type(error).__name__)
            return False
        body = answer.structured_content or {}
        if answer.is_error and body.get("error") not in FINAL:
            logger.warning("A store waits on this machine: %s", body.get("error"))
            return False
        if answer.is_error and body.get("memory_id") is None:  # with an id it is a duplicate: it is there
            logger.error("A store was refused and set aside: %s", body.get("error"))
            self._outbox.refused(call)
        else:
            self._outbox.sent(call)
        return True

    def _keep(self, tool: str, arguments: dict[str, Any]) -> ToolResult:
        failure = None
        try:
            self._outbox.add(tool, arguments)
        except DatabaseError as error:
            logger.warning("%s", error)
            failure = failed_result(Result, error)
        if tool in HOOKS:  # a client shows its user whatever else a hook answers
            return ToolResult(content=[TextContent(type="text", text="{}")])
        said = "Kept on this machine: the shared memory cannot be reached. It is stored there, in order, once it can."
        return failure or ToolResult(structured_content={**Result(message=said).model_dump(), "queued": True})


def create_relay(remote: Remote, outbox: Outbox, offer: ServerOptions) -> FastMCP:
    """Return a server with the tools, resources and prompts of a shared memory, which answers from there."""
    relay = Relay(remote, outbox)

    @asynccontextmanager
    async def lifespan(_server: FastMCP) -> AsyncIterator[dict[str, object]]:
        sending = asyncio.create_task(keep_sending(relay))
        try:
            yield {}
        finally:
            sending.cancel()

    server = MemoryServer(
        "vector-memory",
        instructions=instructions_for(offer, over_http=True),
        version=__version__,
        lifespan=lifespan,
        middleware=[relay],
        tools=offered(offer.chosen(), read_only=offer.read_only, profile=offer.profile, on_this_machine=False),
    )
    add_resources(server)
    add_prompts(server, read_only=offer.read_only)
    return server


async def keep_sending(relay: Relay) -> None:
    """Send what waits, again and again."""
    while True:
        await relay.send_waiting()
        await asyncio.sleep(SECONDS_BETWEEN_ATTEMPTS)
