"""What each hook does: stores prompts, answers, reports of sub-agents and summaries of compacted conversations.

Texts are written to the disk first, so that nothing is lost if the memory fails. A prompt's answer carries context from
earlier sessions. Messages that precede the first hook of a session are read once from the client's transcript, and only
recent ones: what was deleted, or was not to be stored at the time, must not come back.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from anyio import fail_after
from anyio.to_thread import run_sync
from fastmcp import Context

from vector_memory.clients.reading.conversation import (
    REMEMBER,
    USER,
    Message,
    hashes_as_stored,
    leaves_out,
    message_of,
    prompt_in,
    storable,
    stored_fields,
)
from vector_memory.clients.reading.importing import is_of_subagent, read_own, reason_of
from vector_memory.clients.reading.lines import FormatError
from vector_memory.domain import MemoryFields, MemoryKind, NewMemory, utc_now
from vector_memory.domain.times import utc
from vector_memory.errors import VectorMemoryError, where
from vector_memory.reading.recap import Mention
from vector_memory.server.conversation import Conversation, KnownSession, client_of, conversation_of
from vector_memory.server.current_store import SessionMemoryStore, current_caller, store_of_caller
from vector_memory.server.hooks import HEARD_AT
from vector_memory.server.turns import HOOK, SEARCH, in_worker, taken
from vector_memory.settings import Recall, Redact
from vector_memory.writing.outbox import DeliveryOutcome, T
from vector_memory.writing.writer import hash_of

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
"""Seconds that a prompt waits until it is stored. After that the user continues, and it is stored from the disk."""

PATIENCE_AFTERWARDS_SECONDS = 2.0
"""An answer waits longer: the user is reading it, and the next search should find it."""


Kept = Future[DeliveryOutcome[None]] | None
"""The outcome of the first attempt to store a text that is on the disk; None if there is no text."""

READING_SECONDS = 2.0
"""Maximum seconds that a user waits for a recap."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a hook reports. `time`: when. `client`: the client's name. `given`: the fields that the client filled in.

    `told_before`: whether the session had a prompt before, and the memories that its agent had been shown. `taken` is
    called once the text is on the disk.
    """

    store: SessionMemoryStore
    conversation: Conversation
    session_id: str
    time: str
    client: str
    given: Mapping[str, str]
    told_before: tuple[bool, frozenset[int]]
    taken: Callable[[], None] = lambda: None

    def text(self, name: str) -> str:
        """Return a field without white space around it; empty if it is missing."""
        return self.given.get(name, "").strip()

    @property
    def is_kept(self) -> bool:
        """Whether what hooks report is stored."""
        return self.conversation.may_store and self.store.settings.capture

    @property
    def is_left_out(self) -> bool:
        """Whether the user wants nothing more of the session kept unasked."""
        return self.store.intake.leaves_out(self.session_id)

    async def heard(self) -> KnownSession | None:
        """Return what the server knows of the session; None if the memory cannot be read, or not in time."""
        known = self.conversation.heard
        if self.session_id not in known:
            latest_in = partial(self.store.past.latest_in, self.session_id, self.time)
            try:
                with fail_after(READING_SECONDS):
                    known.setdefault(self.session_id, KnownSession(await run_sync(latest_in, abandon_on_cancel=True)))
            except Exception as error:
                log_failure("A session was not looked up", error)
        return known.get(self.session_id)

    def untell(self) -> None:
        """Let the session's next prompt bring what the answer says, which the client did not wait for."""
        if known := self.conversation.heard.get(self.session_id):
            known.has_prompt, known.told = self.told_before[0], set(self.told_before[1])

    def count(self, text: str) -> None:
        """Count what the answer adds to the session. Costs it no time."""
        known, (had_prompt, told) = self.conversation.heard[self.session_id], self.told_before
        is_recap = known.latest is None and not had_prompt
        self.store.count_told(self.session_id, self.client, text, sorted(known.told - told), is_recap=is_recap)


def event_of(context: Context | None, arguments: Mapping[str, Any]) -> Event | None:
    """Return the event that a call reports; None on a server without session tools, and for a sub-agent's task."""
    if context is None or "conversation" not in context.lifespan_context:
        return None
    conversation = conversation_of(context)
    given = {name: value for name, value in arguments.items() if isinstance(value, str)}
    session_id = given.get("session_id", "").strip()
    if is_of_subagent(Path(given.get("transcript_path", "")), session_id):
        return None
    if conversation.is_over_http:  # the path would be one of this machine, which is not the client's
        given.pop("transcript_path", None)
    return event_in(store_of_caller(context.lifespan_context), conversation, client_of(context), given)


def event_in(store: SessionMemoryStore, conversation: Conversation, client: str, given: dict[str, str]) -> Event:
    """Return an event of a conversation, whose session is the one that the client names."""
    if session_id := given.get("session_id", "").strip():
        conversation.session_id = storable_in(store, session_id)
    session_id = conversation.session()
    known = conversation.heard.get(session_id, KnownSession(None))
    told_before = known.has_prompt, frozenset(known.told)
    return Event(store, conversation, session_id, time_in(given), client, given, told_before)


def time_in(given: Mapping[str, str]) -> str:
    """Return when an event was heard. A relay sends the time, because its call may wait or be sent twice."""
    now = utc_now()
    with suppress(ValueError):
        return min(utc(given[HEARD_AT]), now) if HEARD_AT in given else now
    return now


async def keep(event: Event, name: str) -> Kept:
    """Queue the text of an event, unless storing is off. Raises as `Intake.take`."""
    message = message_of(name, event.given, event.client, event.time) if event.is_kept else None
    if message and message.agent_id != USER and event.is_left_out:
        message = None
    kept = await in_worker(HOOK, take, event, message) if message else None
    event.taken()
    return kept


def take(event: Event, message: Message) -> Kept:
    """Write a message to the disk, without secrets, and queue it; None if it is empty. Raises as `Intake.take`."""
    clean = partial(storable_in, event.store)
    if not (content := clean(message.content)):
        return None
    if message.kind is MemoryKind.INPUT_PROMPT:
        event.conversation.prompts.setdefault(event.session_id, []).append((hash_of(content), message.time))
    caller = current_caller()
    message = replace(message, agent_id=caller.agent_id or message.agent_id)
    fields = stored_fields(message, event.session_id, event.conversation.project.folder, event.client, clean)
    if caller.name:
        fields["came_from"] = {**fields["came_from"], "token": caller.name}
    return event.store.intake.take(message.kind, content, **fields)


def storable_in(store: SessionMemoryStore, text: str) -> str:
    """Return a text or a name from a hook as it is stored."""
    return storable(text, redacts=store.settings.redact is not Redact.OFF).text


async def settle(event: Event, kept: Kept, patience: float) -> None:
    """Wait a limited time until a text is stored; not at all if storing is held up."""
    if kept is not None:
        await outcome_in_time(kept, 0 if event.store.intake.delivery.is_held_up else patience)


async def outcome_in_time(kept: Future[DeliveryOutcome[T]], patience: float) -> DeliveryOutcome[T] | None:
    """Return the outcome of the first attempt to store a text; None if it is not known in time."""
    await asyncio.wait([asyncio.wrap_future(kept)], timeout=patience)
    return kept.result() if kept.done() else None


def log_failure(what: str, error: Exception) -> None:
    """Log why something failed, without stored content."""
    logger.warning("%s: %s", what, error if isinstance(error, VectorMemoryError) else where(error))


REACH = timedelta(hours=1)
"""Older messages than this before the server's start are not stored: no server takes so long to start."""

ATTEMPTS, PAUSE_SECONDS = 10, 0.15
"""A client may write its transcript a moment after it has called a hook."""


at_work: set[asyncio.Task[None]] = set()
"""Tasks that no call awaits; without a reference, the event loop would let them be collected."""


async def begin_to_catch_up(event: Event, heard: KnownSession, *, is_answered: bool, patience: float) -> None:
    """Catch up with a session once, and wait `patience` seconds at most. `is_answered`: see `catch_up`."""
    if heard.is_caught_up:
        return
    heard.is_caught_up = not is_answered
    task = asyncio.create_task(catch_up(event, heard, is_answered=is_answered))
    at_work.add(task)
    task.add_done_callback(at_work.discard)
    await asyncio.wait([task], timeout=patience)


async def catch_up(event: Event, heard: KnownSession, *, is_answered: bool) -> None:
    """Store the texts of a session's transcript that are not yet memories. `is_answered`: a prompt must be in it."""
    if not event.is_kept or event.is_left_out or not event.text("transcript_path"):
        return
    try:
        for _ in range(ATTEMPTS if is_answered else 1):
            said = await run_sync(missing, event, heard)
            if any(one.kind is MemoryKind.INPUT_PROMPT for one in said):
                break
            await asyncio.sleep(PAUSE_SECONDS if is_answered else 0)
        for one in said:
            await in_worker(HOOK, take, event, one)
    except Exception as error:
        heard.is_caught_up = isinstance(error, FormatError)  # which the next attempt would also meet
        log_failure("The transcript of a session was not read", error)


def missing(event: Event, heard: KnownSession) -> list[Message]:
    """Return the messages since the latest memory that the session had at its first hook."""
    project = Path(event.conversation.project.folder)
    transcript = read_own(Path(event.text("transcript_path")), event.text("session_id"), project)
    if transcript is None:
        return []
    if transcript.unread:
        logger.warning("A part of a session's transcript was not read: %s", reason_of(transcript.unread))
    reach = datetime.fromisoformat(event.conversation.started) - REACH
    since = max(heard.latest or "", reach.isoformat(timespec="microseconds"))
    said = [
        replace(one, agent_id=event.client) if one.kind is MemoryKind.WORKING_MEMORY else one
        for one in transcript.said
        if one.time > since or one.kind is MemoryKind.INPUT_PROMPT  # a session's prompts are compared at once
    ]
    return [one for one in unknown_among(event, said) if one.time > since]


def unknown_among(event: Event, said: Sequence[Message]) -> list[Message]:
    """Return the messages that are neither stored nor deleted nor reported by a hook, whose times differ."""
    memories: list[tuple[Message, NewMemory]] = []
    forms: dict[str, set[str]] = {}
    for one in said:
        if text := storable_in(event.store, one.content):
            fields = MemoryFields(session_id=event.session_id, agent_id=one.agent_id, created_at=one.time)
            memories.append((one, NewMemory.of(one.kind, text, **fields)))
            forms[hash_of(text)] = hashes_as_stored(one.content)
    reported = event.conversation.prompts.get(event.session_id, ())
    found = event.store.batches.new_among([memory for _, memory in memories], reported, forms)
    new = set(map(id, found.new))
    return [one for one, memory in memories if id(memory) in new]


LEAST_PROMPT = 20
"""Shorter prompts refer to the message before them: nothing is recalled for them."""


async def hook_prompt(event: Event) -> str | None:
    """Store a prompt. Return a recap for a session's first prompt, and memories close to later ones.

    What the prompt asks of the memory itself is done, and the agent is told.
    """
    prompt = prompt_in(event.text("prompt"))
    done = await in_worker(HOOK, leave_out, event) if event.is_kept and leaves_out(prompt) else None
    kept = await keep(event, "prompt")
    if kept is not None and REMEMBER.match(prompt):
        done = REMEMBERED
    context, heard = None, await event.heard()
    if heard is not None:
        context = await context_for(event, heard, prompt) if prompt else None
        await begin_to_catch_up(event, heard, is_answered=False, patience=PATIENCE_SECONDS)
    await settle(event, kept, PATIENCE_SECONDS)
    return "\n\n".join(filter(None, (done, context))) or None


REMEMBERED = "The memory keeps what the user asks to remember in this prompt: there is no need to store it."


def leave_out(event: Event) -> str:
    """Keep nothing more of a session unasked; return what the agent is told. Raises as `Intake.leave_out`."""
    event.store.intake.leave_out(event.session_id)
    return (
        "As the user asks, hooks keep nothing more of this session in the memory. What they have kept stays until the"
        f" user runs `vector-memory delete --session {event.session_id}`."
    )


async def hook_start(event: Event) -> str | None:
    """Return the recap for a session that starts."""
    heard = await event.heard()
    return None if heard is None else await context_for(event, heard, "")


async def context_for(event: Event, heard: KnownSession, prompt: str) -> str | None:
    """Return the context for a prompt; nothing if the memory cannot be read. Each memory is shown once per session."""
    is_first, heard.has_prompt = not heard.has_prompt, True
    try:
        with fail_after(READING_SECONDS):
            async with taken(SEARCH):
                found = await run_sync(
                    partial(_recalled, event, heard, prompt, is_first=is_first), abandon_on_cancel=True
                )
    except Exception as error:
        log_failure("Nothing was recalled", error)
        event.untell()
        return None
    if found is None:
        return None
    heard.told |= found.ids
    return found.text


def _recalled(event: Event, heard: KnownSession, prompt: str, *, is_first: bool) -> Mention | None:
    recall, past = event.store.settings.recall, event.store.past
    if recall is not Recall.OFF and is_first and heard.latest is None:
        return past.recap(event.conversation.project, event.session_id)
    if recall is Recall.ALL and len(prompt) >= LEAST_PROMPT:
        return past.near(prompt, event.session_id, heard.told, is_shared=not event.conversation.project.owns_memory)
    return None


async def hook_subagent(event: Event) -> None:
    """Store the last message of a sub-agent as its report. A compaction ends like a sub-agent without a type."""
    await store(event, "subagent")


async def hook_answer(event: Event) -> None:
    """Store a long answer as working memory, and its prompt if the server was not ready for it."""
    heard = await store(event, "answer")
    if heard is not None:
        await begin_to_catch_up(event, heard, is_answered=True, patience=PATIENCE_AFTERWARDS_SECONDS)


async def hook_compaction(event: Event) -> None:
    """Store the summary of a compacted conversation as the session's state."""
    await store(event, "compaction")


async def store(event: Event, name: str) -> KnownSession | None:
    """Queue the text of an event and wait briefly until it is stored; return what the server knows of the session."""
    kept = await keep(event, name)
    heard = await event.heard()
    await settle(event, kept, PATIENCE_AFTERWARDS_SECONDS)
    return heard
