"""A server over standard input and output that hands every call on to a shared memory over HTTP.

For clients that cannot speak HTTP, and for hooks. If the shared memory cannot be reached, that is said at once; what
would be stored is kept on this machine and sent, in order, when it is back.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp import MCPError
from mcp_types import (
    CallToolRequestParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    GetPromptRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from vector_memory import __version__
from vector_memory.errors import DatabaseError, QuotaExceededError, ValidationError, VectorMemoryError
from vector_memory.results.sessions import Result
from vector_memory.server.app import add_listed
from vector_memory.server.fastmcp_adapter import MemoryServer
from vector_memory.server.hooks import FAILED, HOOKS
from vector_memory.server.http.outbox import Outbox, Waiting
from vector_memory.server.http.remote import BrokenCallError, Remote, Speaker
from vector_memory.server.instructions import instructions_for
from vector_memory.server.tools import offered
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.settings import ServerOptions

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_ATTEMPTS = 2.0

FINAL = frozenset({"ValidationError", "AccessDenied", "ChunkingError"})
"""Errors of a call that will fail each time it is repeated. A duplicate is one: it is stored already."""

ATTEMPTS = 5
"""How often others wait behind a call that the shared memory can be reached for, but fails."""

KEPT = "Kept on this machine. It will be sent to the shared memory, in order, as soon as that can be reached."


class Relay(Middleware):
    """Answers from the shared memory, and keeps what cannot be stored there yet."""

    def __init__(self, remote: Remote, outbox: Outbox) -> None:
        self._remote = remote
        self._outbox = outbox
        self._session_id: str | None = None
        self._failures: Counter[Path] = Counter()
        self._problem: str | None = None

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
        try:
            answer = await self._answer(name, arguments, context.fastmcp_context)
        except VectorMemoryError as error:
            answer = failed_result(Result, error)
        if name in HOOKS and answer.is_error:  # a client shows its user whatever else a hook answers
            logger.warning("%s failed: %s", name, (answer.structured_content or {}).get("error"))
            return nothing_to_tell()
        return answer

    async def _answer(self, name: str, arguments: dict[str, Any], context: Context | None) -> ToolResult:
        require_text(arguments)
        stores = name.startswith(("store_", "hook_"))
        speaker = self._speaker(name, arguments, context)
        if stores and not self._outbox.is_empty():  # in order: behind those that wait
            return self._keep(name, arguments, speaker)
        try:
            return await self._remote.call(name, arguments, speaker, context)
        except DatabaseError:
            if not stores:
                raise
            return self._keep(name, arguments, speaker)

    def _speaker(self, name: str, arguments: dict[str, Any], context: Context | None) -> Speaker:
        """Return for whom a call is made, and note the session if a hook names it."""
        session_id = arguments.get("session_id")
        if name in HOOKS and isinstance(session_id, str) and session_id.strip():
            self._session_id = session_id.strip()
        client = context.session.client_params if context else None
        return Speaker(client.client_info.name if client else None, self._session_id)

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

    async def complete(
        self,
        reference: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Complete a name from those in the shared memory; from none if it cannot be reached."""
        typed = {"name": argument.name, "value": argument.value}
        try:
            async with self._remote.client() as client:
                return await client.complete(reference, typed, context.arguments if context else None)
        except VectorMemoryError:
            return Completion(values=[])

    async def send_waiting(self) -> None:
        """Send what waits, the oldest first, until the shared memory cannot be reached. Another process may do so."""
        with self._outbox.sending() as may_send:
            if not may_send:
                return
            for call in self._outbox.waiting():
                if await self._sent(call):
                    del self._failures[call.path]
                elif self._failures[call.path] < ATTEMPTS:
                    return

    async def _sent(self, call: Waiting) -> bool:
        """Send a call that waits; False: it has to wait longer."""
        try:
            answer = await self._remote.call(call.tool, call.arguments, call.speaker)
        except (BrokenCallError, MCPError) as error:
            return self._failed(call, type(error).__name__)
        except DatabaseError as error:
            logger.debug("Not sent yet: %s", error)
            self._failures.clear()
            return False
        except VectorMemoryError as error:
            answer = failed_result(Result, error)
        body = answer.structured_content or {}
        problem = body.get("error") if answer.is_error else (answer.meta or {}).get(FAILED)
        if problem is None or body.get("memory_id") is not None:  # an error with an id is a duplicate: it is there
            self._outbox.sent(call)
        elif problem in FINAL:
            logger.error("A store was refused and set aside: %s", problem)
            self._outbox.refused(call)
        else:
            return self._failed(call, str(problem))
        return True

    def _failed(self, call: Waiting, problem: str) -> bool:
        if self._problem != problem:
            logger.warning("A store waits on this machine: %s", problem)
        self._problem = problem
        if problem != QuotaExceededError.code:  # which all that waits would meet
            self._failures[call.path] += 1
        return False

    def _keep(self, tool: str, arguments: dict[str, Any], speaker: Speaker) -> ToolResult:
        self._outbox.add(tool, arguments, speaker)
        if tool in HOOKS:
            return nothing_to_tell()
        return ToolResult(structured_content={**Result(message=KEPT).model_dump(), "queued": True})


def nothing_to_tell() -> ToolResult:
    """Return the answer of a hook that adds nothing to the agent's context."""
    return ToolResult(content=[TextContent(type="text", text="{}")])


def require_text(arguments: dict[str, Any]) -> None:
    """Raise ValidationError for text that no message can carry."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise ValidationError(
            "The arguments contain a lone surrogate or NaN: send what JSON and UTF-8 can hold."
        ) from None


def create_relay(remote: Remote, outbox: Outbox, offer: ServerOptions) -> FastMCP:
    """Return a server with the tools, resources and prompts of a shared memory, which answers from there."""
    relay = Relay(remote, outbox)

    @asynccontextmanager
    async def lifespan(_server: FastMCP) -> AsyncIterator[dict[str, object]]:
        sending = asyncio.create_task(keep_sending(relay, outbox))
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
    add_listed(server, offer)
    server.add_completion_handler(relay.complete)
    return server


async def keep_sending(relay: Relay, outbox: Outbox) -> None:
    """Send what waits, again and again."""
    while True:
        try:
            if not outbox.is_empty():
                await relay.send_waiting()
        except Exception:  # whatever it was, the next attempt may succeed
            logger.exception("What waits on this machine could not be sent")
        await asyncio.sleep(SECONDS_BETWEEN_ATTEMPTS)
