"""A server over standard input and output that forwards every call to a shared memory over HTTP.

For clients that cannot speak HTTP, and for hooks. While the shared memory cannot be reached, calls fail at once, but
texts to store are kept on this machine and sent, in order, when it is back.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import mcp_types
from anyio.to_thread import run_sync
from fastmcp import Context, FastMCP
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult

from vector_memory import __version__, errors
from vector_memory.answers.models import Result
from vector_memory.clients.events import HOOKS
from vector_memory.domain import utc_now
from vector_memory.domain.user_files import read_file
from vector_memory.server.app import add_listed
from vector_memory.server.early import EarlyClient, take_standard_streams
from vector_memory.server.fastmcp_adapter import MemoryServer, serve_streams
from vector_memory.server.hooks import HEARD_AT
from vector_memory.server.hooks.capture import outcome_in_time
from vector_memory.server.http.remote import Remote, RemoteClient, Sender, call_of, heard_in
from vector_memory.server.instructions import instructions_for
from vector_memory.server.shutdown import end_process, stop_on_signals
from vector_memory.server.stdio import Wire
from vector_memory.server.tools import offered
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.server.turns import HOOK, in_worker
from vector_memory.settings import Redact, ServerOptions
from vector_memory.texts.redaction import redact
from vector_memory.writing.outbox import SLOW, Body, Delivery, Outbox, outbox_for, user_folder

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
"""How long a hook waits for the shared memory: less than clients wait for a hook."""

SECONDS_BETWEEN_LOOKS = 0.01

KEPT = "Kept on this machine. It will be sent to the shared memory, in order, as soon as that can be reached."


class Relay(Middleware):
    """Forwards requests to the shared memory, and keeps texts that cannot be stored there yet."""

    def __init__(self, remote: Remote, outbox: Outbox, redacts: Redact = Redact.CAPTURED) -> None:
        self._remote = remote
        self._redacts = redacts
        self._session_id: str | None = None
        self.sender = Sender(remote)
        self.delivery = Delivery(outbox, self.sender)

    def start(self) -> None:
        """Send waiting texts, in the running event loop."""
        self.sender.begin(asyncio.get_running_loop())
        self.delivery.start()

    def close(self) -> None:
        """Send nothing more; another relay sends the waiting texts."""
        self.delivery.stop()
        self.sender.end()

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """List the tools that the token permits; all of them if the shared memory cannot be reached."""
        tools = await call_next(context)
        try:
            async with self._remote.client() as client:
                permitted = {tool.name for tool in await client.list_tools()}
        except errors.VectorMemoryError:
            return tools
        return [tool for tool in tools if tool.name in permitted]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],  # noqa: ARG002 - no tool runs here
    ) -> ToolResult:
        """Forward a call; keep it first if a hook makes it, or if it stores and cannot be sent."""
        name, arguments, client = context.message.name, context.message.arguments or {}, context.fastmcp_context
        try:
            if name in HOOKS:
                return await self._hooked(name, heard_in(arguments), client)
            require_text(arguments)
            return await self._answer(name, arguments, client)
        except errors.VectorMemoryError as error:
            return failed_result(Result, error)

    async def _hooked(self, name: str, arguments: dict[str, str], context: Context | None) -> ToolResult:
        """Keep the call of a hook, have it sent, and return the agent's context if that is known soon."""
        if session_id := arguments.get("session_id", "").strip():
            self._session_id = session_id if self._redacts is Redact.OFF else redact(session_id).text
        try:
            timed = {HEARD_AT: utc_now(), **arguments}  # sent twice, it is the same prompt
            kept = await in_worker(HOOK, lambda: self.delivery.take(self._call(name, timed, context)))
        except errors.VectorMemoryError as error:
            logger.error("A text of %s is lost: %s", name, error)  # noqa: TRY400 - the traceback adds nothing
            return nothing_to_tell()
        outcome = await outcome_in_time(kept, 0 if self.delivery.is_held_up else PATIENCE_SECONDS)
        answer = outcome.answer if outcome else None  # clients show users whatever else a hook answers
        return nothing_to_tell() if answer is None or answer.is_error else ToolResult(content=answer.content)

    async def _answer(self, name: str, arguments: dict[str, Any], context: Context | None) -> ToolResult:
        stores = name.startswith("store_")
        if stores and await self._must_wait():
            return await self._keep(name, arguments, context)
        try:
            return await self._remote.call(name, arguments, self._client(context), context)
        except errors.DatabaseError:
            if not stores:
                raise
            return await self._keep(name, arguments, context)

    async def _must_wait(self) -> bool:
        """Return whether a text must queue behind others, after giving these a moment to be stored.

        Not if the namespace is full: it will refuse this text, too, and say so.
        """
        give_up = time.monotonic() + SLOW
        while not await run_sync(lambda: self.delivery.is_clear):
            if self.delivery.is_held_up or time.monotonic() > give_up:
                problem = self.delivery.problem
                return problem is None or problem.code != errors.QuotaExceededError.code
            self.delivery.start()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return False

    async def _keep(self, name: str, arguments: dict[str, Any], context: Context | None) -> ToolResult:
        await in_worker(HOOK, lambda: self.delivery.take(self._call(name, arguments, context)))
        return ToolResult(structured_content={**Result(message=KEPT).model_dump(), "queued": True})

    def _call(self, name: str, arguments: dict[str, Any], context: Context | None) -> Body:
        return call_of(name, arguments, self._client(context), self._redacts)

    def _client(self, context: Context | None) -> RemoteClient:
        """Return for whom a call is made."""
        client = context.session.client_params if context else None
        return RemoteClient(client.client_info.name if client else None, self._session_id)

    async def on_read_resource(
        self, context: MiddlewareContext[mcp_types.ReadResourceRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Read a resource of the shared memory."""
        del call_next
        with protocol_errors("resources/read"):
            async with self._remote.client() as client:
                found = await client.read_resource(context.message.uri)
        texts = [one for one in found if isinstance(one, mcp_types.TextResourceContents)]
        return ResourceResult([ResourceContent(one.text, mime_type=one.mime_type) for one in texts])

    async def on_get_prompt(
        self, context: MiddlewareContext[mcp_types.GetPromptRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return a prompt that the shared memory has filled in."""
        del call_next
        with protocol_errors(context.message.name):
            async with self._remote.client() as client:
                found = await client.get_prompt(context.message.name, context.message.arguments)
        return PromptResult([Message(one.content, role=one.role) for one in found.messages])

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete a name from the shared memory; with nothing if it cannot be reached."""
        typed = {"name": argument.name, "value": argument.value}
        try:
            async with self._remote.client() as client:
                return await client.complete(reference, typed, context.arguments if context else None)
        except errors.VectorMemoryError:
            return mcp_types.Completion(values=[])


def nothing_to_tell() -> ToolResult:
    """Return the answer of a hook that adds nothing to the agent's context."""
    return ToolResult(content=[mcp_types.TextContent(type="text", text="{}")])


def require_text(arguments: dict[str, Any]) -> None:
    """Raise ValidationError for text that no message can carry."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise errors.ValidationError(
            "The arguments contain a lone surrogate or NaN: send what JSON and UTF-8 can hold."
        ) from None


def create_relay(relay: Relay, offer: ServerOptions) -> FastMCP:
    """Return a server with the tools, resources and prompts of a shared memory, which answers from there."""

    @asynccontextmanager
    async def lifespan(_server: FastMCP) -> AsyncIterator[dict[str, object]]:
        relay.start()
        try:
            yield {}
        finally:
            relay.close()

    server = MemoryServer(
        "vector-memory",
        instructions=instructions_for(offer, over_http=True),
        version=__version__,
        lifespan=lifespan,
        middleware=[relay],
        tools=offered(
            offer.chosen(),
            read_only=offer.read_only,
            profile=offer.profile,
            on_this_machine=False,
            is_lean=True,  # the shared server decides; what these tools declare is true in both forms
        ),
    )
    add_listed(server, offer)
    server.add_completion_handler(relay.complete)
    return server


def run_relay(url: str, token_file: Path, offer: ServerOptions, redacts: Redact) -> NoReturn:
    """Serve one client from a shared memory until it disconnects or a signal arrives; end the process."""
    read_token(token_file)  # a mistake is reported at once
    relay = Relay(Remote(url, partial(read_token, token_file)), outbox_of(url, token_file), redacts)
    end = partial(end_process, relay.close)
    stop_on_signals(end)
    asyncio.run(serve_streams(create_relay(relay, offer), Wire(EarlyClient(*take_standard_streams()), end).streams()))
    end()


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ConfigurationError if it cannot be read, or anybody else may read it."""
    try:
        if path.stat().st_mode & 0o077:
            raise errors.ConfigurationError(f"Others can read the token in {path}: run `chmod 600 {path}`.")
        return read_file(path).decode().strip()
    except OSError as error:
        raise errors.ConfigurationError(f"The token file {path} cannot be read: {error.strerror}.") from error


def outbox_of(url: str, token_file: Path) -> Outbox:
    """Return the outbox for a shared memory. Raises ConfigurationError if this user has no home.

    Each token file has its own: another token may open another namespace, where these texts do not belong. It depends
    on the file and not the token, so that a renewed token sends what has waited.
    """
    folder = user_folder()
    if folder is None:
        raise errors.ConfigurationError("No home directory to queue unsent texts in: set XDG_STATE_HOME.")
    return outbox_for(f"{url}\n{token_file.resolve()}", url, folder)
