"""Calls a shared memory over HTTP for a relay, and sends the texts that waited on this machine."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import httpx2
from fastmcp import Client, Context
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.tools import InputRequiredToolResult, ToolResult
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, Implementation, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vector_memory.clients.events import HOOKS
from vector_memory.domain.text import without_halves
from vector_memory.errors import AccessDeniedError, DatabaseError, ValidationError, VectorMemoryError
from vector_memory.server.conversation import SESSION_KEY
from vector_memory.server.fastmcp_adapter import call_once
from vector_memory.server.hooks import FAILED
from vector_memory.server.tools.confirmation import answers_of_user, can_ask, can_wait_for_user
from vector_memory.settings import Redact
from vector_memory.texts.redaction import redact_within, require_no_secret
from vector_memory.writing.outbox import Body, DeliveryOutcome, Verdict, failure

SECONDS_TO_CONNECT = 5.0

SECONDS_TO_ANSWER = 120.0
"""How long the server may be silent during a call: longer than any call may wait."""

MADE_BY_CLIENT = frozenset({CONNECTION_CLOSED, INTERNAL_ERROR})
"""Codes of the errors that the protocol's client raises itself when the connection breaks."""

SLOW = 1.0
SECONDS_AWAY = 10.0
"""After an attempt to connect that took longer than `SLOW`, calls fail at once for this time."""


class BrokenCallError(DatabaseError):
    """The shared memory can be reached, but has not answered this call."""


class RemoteClient(NamedTuple):
    """On whose behalf a call is made: the client's name, and the session that its hooks have named."""

    client: str | None = None
    session_id: str | None = None


NOBODY = RemoteClient()


class Remote:
    """The shared memory. Each call has a connection of its own, so that nothing breaks when the server restarts.

    `token`: returns the token, which may be renewed at any time.
    """

    def __init__(self, url: str, token: Callable[[], str]) -> None:
        self._url = url
        self._token = token
        self._away_until = 0.0

    @asynccontextmanager
    async def client(
        self, speaker: RemoteClient = NOBODY, *, can_ask: bool = False
    ) -> AsyncIterator[Client[StreamableHttpTransport]]:
        """Yield a connected client. `can_ask`: the server may return questions to the user.

        Raises:
            DatabaseError: The server cannot be reached, refuses the token, or is gone before it has answered.
            AccessDeniedError: The token does not permit the call.
            ValidationError: The call is larger than the server, or a proxy in front of it, accepts.
            MCPError: The server's own answer.
        """
        if time.monotonic() < self._away_until:
            raise self._error()
        statuses: list[int] = []
        client = Client(
            StreamableHttpTransport(self._url, headers=self._headers(), httpx_client_factory=noting_statuses(statuses)),
            init_timeout=SECONDS_TO_CONNECT,
            client_info=Implementation(name=speaker.client, version="") if speaker.client else None,
            elicitation_handler=asked_in_answers if can_ask else None,
        )
        began, is_connected = time.monotonic(), False
        try:
            async with client:
                self._require_modern(client)
                is_connected = True
                yield client
        except VectorMemoryError:
            raise
        except MCPError as error:
            if is_connected and statuses[-1:] in ([200], [400]) and error.code not in MADE_BY_CLIENT:
                raise
            raise self._error(statuses, is_connected=is_connected) from error
        except Exception as error:  # the client raises whatever its transport did
            if not is_connected and time.monotonic() - began > SLOW:
                self._away_until = time.monotonic() + SECONDS_AWAY
            raise self._error(statuses, is_connected=is_connected) from error

    async def call(
        self, tool: str, arguments: dict[str, Any], speaker: RemoteClient = NOBODY, context: Context | None = None
    ) -> ToolResult:
        """Call a tool; forward progress and questions to the client of `context`. Raises the errors of `client`."""
        asking = context is not None and can_ask(context)
        async with self.client(speaker, can_ask=asking) as client:
            ask = partial(
                call_once,
                client,
                tool,
                arguments,
                meta={SESSION_KEY: speaker.session_id} if speaker.session_id else None,
                progress_callback=context and context.report_progress,
            )
            if context is None:
                answer = await ask()
            else:
                answer = await ask(input_responses=context.input_responses, request_state=context.request_state)
                while isinstance(answer, InputRequiredResult) and can_wait_for_user(context):
                    replies = await answers_of_user(context, answer)
                    answer = await ask(input_responses=replies, request_state=answer.request_state)
        if isinstance(answer, InputRequiredResult):
            return InputRequiredToolResult(answer)
        return ToolResult(
            content=answer.content,
            structured_content=answer.structured_content,
            meta=answer.meta,
            is_error=answer.is_error,
        )

    def _require_modern(self, client: Client[StreamableHttpTransport]) -> None:
        """Raise DatabaseError if only the older era was agreed on, in which nobody would be asked before a deletion.

        This server speaks the newer one: something in between has failed for a moment.
        """
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise self._error()

    def _headers(self) -> dict[str, str]:
        try:
            return {"Authorization": f"Bearer {self._token()}"}
        except VectorMemoryError as error:
            raise DatabaseError(str(error)) from None

    def _error(self, statuses: Sequence[int] = (), *, is_connected: bool = False) -> VectorMemoryError:
        """Return the error for a failed connection or call, by the last status of HTTP."""
        memory = f"The shared memory at {self._url}"
        match statuses[-1:]:
            case [httpx2.codes.UNAUTHORIZED]:
                return DatabaseError(f"{memory} refuses the token: tell the user.")
            case [httpx2.codes.FORBIDDEN]:
                return AccessDeniedError(f"{memory} does not permit this call with this token.")
            case [httpx2.codes.CONTENT_TOO_LARGE]:
                return ValidationError(
                    f"{memory}, or a proxy in front of it, refuses this size: send the text in parts."
                )
        kind = BrokenCallError if is_connected else DatabaseError
        status = "".join(f" (HTTP status {code})" for code in statuses[-1:] if not httpx2.codes.is_success(code))
        return kind(f"{memory} cannot be reached{status}: tell the user.")


async def asked_in_answers(*_question: object) -> Mapping[str, Any]:
    """Declare that the user can be asked. The server returns questions as answers, which the relay forwards."""
    raise NotImplementedError


def noting_statuses(statuses: list[int]) -> Callable[..., httpx2.AsyncClient]:
    """Return a function that opens HTTP clients, which add the status of each answer to a list."""

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    hooks: dict[str, list[Callable[[Any], Awaitable[None]]]] = {"response": [note]}
    timeout = httpx2.Timeout(SECONDS_TO_CONNECT, read=SECONDS_TO_ANSWER, write=SECONDS_TO_ANSWER)

    def open_client(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**(options | {"timeout": timeout, "event_hooks": hooks, "verify": certificates()}))

    return open_client


certificates = cache(httpx2.create_ssl_context)
"""Return the trusted certificates. Reading them takes 20 ms, longer than a call."""


NAMES = ("session_id", "agent_id", "task_code")
"""Arguments that are names: without a part of it, each would name something else."""


class Sender:
    """Sends calls that waited, from the thread that delivers them, in the event loop of the relay."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._sending: Future[DeliveryOutcome[ToolResult]] | None = None

    def __call__(self, body: Body) -> DeliveryOutcome[ToolResult]:
        """Send a call."""
        try:
            tool, arguments, speaker = str(body["tool"]), dict(body["arguments"]), RemoteClient(**body["speaker"])
        except (KeyError, TypeError, ValueError):
            return DeliveryOutcome(Verdict.REFUSED, "It is not a call.")
        with self._lock:
            if self._loop is None:
                return DeliveryOutcome(Verdict.LATER, "The relay has ended.")
            self._sending = asyncio.run_coroutine_threadsafe(self._sent(tool, arguments, speaker), self._loop)
        return self._sending.result()

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send in this event loop from now on."""
        self._loop = loop

    def end(self) -> None:
        """Send nothing more: the event loop ends. A call that is being sent is sent again by the next relay."""
        with self._lock:
            self._loop = None
            if self._sending is not None:
                self._sending.cancel()

    async def _sent(self, tool: str, arguments: dict[str, Any], speaker: RemoteClient) -> DeliveryOutcome[ToolResult]:
        try:
            answer = await self._remote.call(tool, arguments, speaker)
        except (BrokenCallError, MCPError) as error:
            return DeliveryOutcome(Verdict.FAILED, f"The shared memory has not answered ({type(error).__name__}).")
        except DatabaseError as error:
            return DeliveryOutcome(Verdict.LATER, str(error))
        except VectorMemoryError as error:
            return failure(error.code, str(error))
        body = answer.structured_content or {}
        code = body.get("error") if answer.is_error else (answer.meta or {}).get(FAILED)
        if code is None or body.get("memory_id") is not None:  # an error with an id is a duplicate: it is there
            return DeliveryOutcome(Verdict.STORED, answer=answer)
        return failure(str(code), str(body.get("message") or f"The shared memory has failed ({code})."))


def call_of(tool: str, arguments: Mapping[str, Any], speaker: RemoteClient, redacts: Redact) -> Body:
    """Return a call as it may be written to disk: without secrets, as `redacts` says.

    Raises ValidationError for a name with a secret, unless a hook reports it: nobody could choose another name.
    """
    body: Body = {"tool": tool, "arguments": dict(arguments), "speaker": speaker._asdict()}
    if redacts is Redact.ALL or (redacts is Redact.CAPTURED and tool in HOOKS):
        if tool not in HOOKS:
            require_no_secret(**{name: str(arguments[name]) for name in NAMES if name in arguments})
        return dict(redact_within(body)[0])
    return body


def heard_in(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a hook reports, without lone surrogates, which no message can carry.

    The path of a transcript means nothing on another machine.
    """
    texts = {name: text for name, text in arguments.items() if isinstance(text, str) and name != "transcript_path"}
    return {without_halves(name): without_halves(text) for name, text in texts.items()}
