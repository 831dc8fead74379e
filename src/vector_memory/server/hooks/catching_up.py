"""Stores what was said in a session before the server heard of it: its client had started, and it had not.

The client's own transcript tells. It is read once in a session, and only for what was said lately: what was deleted, or
was not to be stored at the time, must not come back.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from anyio.to_thread import run_sync

from vector_memory.domain import MemoryKind
from vector_memory.errors import VectorMemoryError, where
from vector_memory.server.hooks.capture import Event, stored
from vector_memory.transcripts.conversation import Said
from vector_memory.transcripts.own import read_own

logger = logging.getLogger(__name__)

REACH = timedelta(hours=1)
"""What was said longer before the server started is not stored: no server takes so long to start."""

ATTEMPTS, PAUSE_SECONDS = 10, 0.15
"""A client may write its transcript a moment after it has called a hook."""


async def catch_up(event: Event, *, is_answered: bool) -> None:
    """Store what the transcript of a session has beyond its memories. `is_answered`: a prompt must be in it."""
    if not event.is_kept or not event.text("transcript_path"):
        return
    try:
        for _ in range(ATTEMPTS if is_answered else 1):
            said = await run_sync(missing, event)
            if any(one.kind is MemoryKind.INPUT_PROMPT for one in said):
                break
            await asyncio.sleep(PAUSE_SECONDS if is_answered else 0)
        for one in said:
            await stored(event, one)
    except Exception as error:
        reason = error if isinstance(error, VectorMemoryError) else where(error)
        logger.warning("The transcript of a session was not read: %s", reason)


def missing(event: Event) -> list[Said]:
    """Return what was said since the latest memory that the session had when the server first heard of it."""
    project = Path(event.conversation.project.folder).resolve()
    transcript = read_own(Path(event.text("transcript_path")), event.session_id, project)
    if transcript is None:
        return []
    reach = datetime.fromisoformat(event.conversation.started) - REACH
    since = max(event.heard.latest or "", reach.isoformat(timespec="microseconds"))
    said = [one for one in transcript.said if one.time > since]
    return [replace(one, agent_id=event.client) if one.kind is MemoryKind.WORKING_MEMORY else one for one in said]
