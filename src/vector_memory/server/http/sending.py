"""Sends what waits on this machine to the shared memory, and says what came of it."""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from fastmcp.tools import ToolResult
from mcp import MCPError

from vector_memory.domain.text import without_halves
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.outbox import Body, Outcome, Verdict, failure
from vector_memory.redaction import redact_within
from vector_memory.server.hooks import FAILED
from vector_memory.server.http.remote import BrokenCallError, Remote, Speaker
from vector_memory.settings import Redact

TEXTS = frozenset({"prompt", "last_assistant_message", "compact_summary"})
"""The arguments of hooks that somebody has written."""

NAMES = frozenset({"session_id", "agent_id", "agent_type", "task_code", "memory_type"})
"""Arguments that name something, and would name something else without a part of them."""


class Sender:
    """Sends calls that waited, from the thread that delivers them, in the event loop of the relay."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._sending: Future[Outcome[ToolResult]] | None = None

    def __call__(self, body: Body) -> Outcome[ToolResult]:
        """Send a call."""
        try:
            tool, arguments, speaker = str(body["tool"]), dict(body["arguments"]), Speaker(**body["speaker"])
        except (KeyError, TypeError, ValueError):
            return Outcome(Verdict.REFUSED, "It is not a call.")
        with self._lock:
            if self._loop is None:
                return Outcome(Verdict.LATER, "The relay has ended.")
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

    async def _sent(self, tool: str, arguments: dict[str, Any], speaker: Speaker) -> Outcome[ToolResult]:
        try:
            answer = await self._remote.call(tool, arguments, speaker)
        except (BrokenCallError, MCPError) as error:
            return Outcome(Verdict.FAILED, f"The shared memory has not answered ({type(error).__name__}).")
        except DatabaseError as error:
            return Outcome(Verdict.LATER, str(error))
        except VectorMemoryError as error:
            return failure(error.code, str(error))
        body = answer.structured_content or {}
        code = body.get("error") if answer.is_error else (answer.meta or {}).get(FAILED)
        if code is None or body.get("memory_id") is not None:  # an error with an id is a duplicate: it is there
            return Outcome(Verdict.STORED, answer=answer)
        return failure(str(code), str(body.get("message") or f"The shared memory has failed ({code})."))


def call_of(tool: str, arguments: Mapping[str, Any], speaker: Speaker, redacts: Redact) -> Body:
    """Return a call as it may be written to the disk: without secrets, as `redacts` says."""
    redacted = {Redact.OFF: set[str](), Redact.CAPTURED: TEXTS & arguments.keys(), Redact.ALL: arguments.keys() - NAMES}
    kept = {**arguments, **{name: redact_within(arguments[name])[0] for name in redacted[redacts]}}
    return {"tool": tool, "arguments": kept, "speaker": speaker._asdict()}


def heard_in(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a hook reports, without half characters, which no message can carry.

    The path of a transcript means nothing on another machine.
    """
    texts = {name: text for name, text in arguments.items() if isinstance(text, str) and name != "transcript_path"}
    return {without_halves(name): without_halves(text) for name, text in texts.items()}
