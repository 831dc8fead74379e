"""Stores what was said in a session before the server heard of it: its client had started, and it had not.

The client's own transcript tells. It is read once in a session, and only for what was said lately: what was deleted, or
was not to be stored at the time, must not come back.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from anyio.to_thread import run_sync

from vector_memory.domain import MemoryKind, NewMemory
from vector_memory.server.conversation import HeardSession
from vector_memory.server.hooks.capture import Event, log_failure, storable_in, take
from vector_memory.transcripts.conversation import Said
from vector_memory.transcripts.importing import read_own, reason_of
from vector_memory.transcripts.lines import FormatError

logger = logging.getLogger(__name__)

REACH = timedelta(hours=1)
"""Texts said longer before the server's start are not stored: no server takes so long to start."""

ATTEMPTS, PAUSE_SECONDS = 10, 0.15
"""A client may write its transcript a moment after it has called a hook."""


_at_work: set[asyncio.Task[None]] = set()
"""Tasks that no call awaits; without a reference, the event loop would let them be collected."""


async def begin_to_catch_up(event: Event, heard: HeardSession, *, is_answered: bool, patience: float) -> None:
    """Catch up with a session once, and wait `patience` seconds at most. `is_answered`: see `catch_up`."""
    if heard.is_caught_up:
        return
    heard.is_caught_up = not is_answered
    task = asyncio.create_task(catch_up(event, heard, is_answered=is_answered))
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    await asyncio.wait([task], timeout=patience)


async def catch_up(event: Event, heard: HeardSession, *, is_answered: bool) -> None:
    """Store the texts of a session's transcript that are not yet memories. `is_answered`: a prompt must be in it."""
    if not event.is_kept or not event.text("transcript_path"):
        return
    try:
        for _ in range(ATTEMPTS if is_answered else 1):
            said = await run_sync(missing, event, heard)
            if any(one.kind is MemoryKind.INPUT_PROMPT for one in said):
                break
            await asyncio.sleep(PAUSE_SECONDS if is_answered else 0)
        for one in said:
            await take(event, one)
    except Exception as error:
        heard.is_caught_up = isinstance(error, FormatError)  # which the next attempt would meet, too
        log_failure("The transcript of a session was not read", error)


def missing(event: Event, heard: HeardSession) -> list[Said]:
    """Return what was said since the latest memory that the session had when the server first heard of it."""
    project = Path(event.conversation.project.folder)
    transcript = read_own(Path(event.text("transcript_path")), event.session_id, project)
    if transcript is None:
        return []
    if transcript.unread:
        logger.warning("A part of a session's transcript was not read: %s", reason_of(transcript.unread))
    reach = datetime.fromisoformat(event.conversation.started) - REACH
    since = max(heard.latest or "", reach.isoformat(timespec="microseconds"))
    known = known_prompts(event, transcript.said)
    said = [one for one in transcript.said if one.time > since and one not in known]
    return [replace(one, agent_id=event.client) if one.kind is MemoryKind.WORKING_MEMORY else one for one in said]


def known_prompts(event: Event, said: Sequence[Said]) -> list[Said]:
    """Return the prompts that are stored, or that a hook has reported: their times differ from the client's."""
    prompts = [
        (one, NewMemory.of(one.kind, text, session_id=event.session_id, agent_id=one.agent_id, created_at=one.time))
        for one in said
        if one.kind is MemoryKind.INPUT_PROMPT and (text := storable_in(event, one.content))
    ]
    reported = event.conversation.prompts.get(event.session_id, ())
    new = set(map(id, event.store.batches.new_among([memory for _, memory in prompts], reported)))
    return [one for one, memory in prompts if id(memory) not in new]
