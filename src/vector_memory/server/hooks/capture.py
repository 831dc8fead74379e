"""Stores what a client's hooks report: first on the disk, so that nothing is lost if the memory fails."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from anyio import fail_after
from anyio.to_thread import run_sync

from vector_memory.domain import MAIN_AGENT, MemoryKind
from vector_memory.domain.validation import MAX_IDENTIFIER, as_title
from vector_memory.errors import DatabaseError, VectorMemoryError, where
from vector_memory.outbox import Outcome, T, Taken, Verdict
from vector_memory.server.conversation import Conversation, HeardSession
from vector_memory.server.current_store import current_caller
from vector_memory.server.turns import in_intake_thread
from vector_memory.sessions.writer import hash_of
from vector_memory.settings import Redact
from vector_memory.store import SessionMemoryStore
from vector_memory.transcripts.conversation import Said, storable

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
"""Seconds that a prompt waits until it is stored. After that the user continues, and it is stored from the disk."""

PATIENCE_AFTERWARDS_SECONDS = 2.0
"""An answer waits longer: the user is reading it, and the next search should find it."""


READING_SECONDS = 2.0
"""Maximum seconds that a user waits for a recap."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a hook reports. `time`: when. `client`: the client's name. `given`: the fields that the client filled in."""

    store: SessionMemoryStore
    conversation: Conversation
    session_id: str
    time: str
    client: str
    given: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field without white space around it; empty if it is missing."""
        return self.given.get(name, "").strip()

    @property
    def is_kept(self) -> bool:
        """Whether what hooks report is stored."""
        return self.conversation.may_store and self.store.settings.capture

    async def heard(self) -> HeardSession | None:
        """Return what the server knows of the session; None if the memory cannot be read, or not in time."""
        known = self.conversation.heard
        if self.session_id not in known:
            latest_in = partial(self.store.past.latest_in, self.session_id, self.time)
            try:
                with fail_after(READING_SECONDS):
                    known.setdefault(self.session_id, HeardSession(await run_sync(latest_in, abandon_on_cancel=True)))
            except Exception as error:
                log_failure("A session was not looked up", error)
        return known.get(self.session_id)


async def keep(event: Event, kind: MemoryKind, content: str, agent_id: str = MAIN_AGENT) -> Taken[None] | None:
    """Keep a text under the client's session, unless storing is off. Raises the errors of `Intake.take`."""
    return await take(event, Said(kind, agent_id, content, event.time)) if event.is_kept else None


async def take(event: Event, said: Said) -> Taken[None] | None:
    """Keep what was said, and have it stored; None if there is nothing in it. Raises the errors of `Intake.take`."""
    return await in_intake_thread(partial(taken, event, said))


def taken(event: Event, said: Said) -> Taken[None] | None:
    """Remove secrets from what was said, and keep it."""
    content, title = (storable_in(event, text) for text in (said.content, said.title or ""))
    if not content:
        return None
    if said.kind is MemoryKind.INPUT_PROMPT:
        event.conversation.prompts.setdefault(event.session_id, []).append((hash_of(content), said.time))
    return event.store.intake.take(
        said.kind,
        content,
        agent_id=(current_caller().agent_id or said.agent_id)[:MAX_IDENTIFIER],
        session_id=event.session_id,
        title=as_title(title),
        metadata={"project": event.conversation.project.folder},
        created_at=said.time,
    )


def storable_in(event: Event, text: str) -> str:
    """Return a text as it is stored for an event."""
    return storable(text, redacts=event.store.settings.redact is not Redact.OFF).text


async def settle(event: Event, kept: Taken[None] | None, patience: float) -> None:
    """Wait a limited time until a text is stored, but not if that is sure to take longer.

    Raises DatabaseError if it is neither stored nor on the disk.
    """
    if kept is None:
        return
    outcome = await outcome_of(kept, 0 if kept.is_kept and event.store.intake.is_held_up else patience)
    if not kept.is_kept and (outcome is None or outcome.verdict is not Verdict.STORED):
        raise DatabaseError(outcome.reason if outcome else "No disk has taken a text, and it is not stored yet.")


async def outcome_of(kept: Taken[T], patience: float) -> Outcome[T] | None:
    """Return the outcome of the first attempt to store a text; None if it is not known in time."""
    await asyncio.wait([asyncio.wrap_future(kept.outcome)], timeout=patience)
    return kept.outcome.result() if kept.outcome.done() else None


def log_failure(what: str, error: Exception) -> None:
    """Log why something failed, without stored content."""
    logger.warning("%s: %s", what, error if isinstance(error, VectorMemoryError) else where(error))
