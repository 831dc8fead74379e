"""Stores what a client's hooks report."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial

from vector_memory.domain import MAIN_AGENT, MemoryKind, utc_now
from vector_memory.domain.validation import as_title
from vector_memory.errors import DuplicateMemoryError, VectorMemoryError, where
from vector_memory.server.callers import current_caller
from vector_memory.server.conversation import Conversation, HeardSession
from vector_memory.server.tools.threads import in_writers_thread
from vector_memory.settings import Redact
from vector_memory.storage.calls import current_call
from vector_memory.store import SessionMemoryStore
from vector_memory.transcripts.conversation import Said
from vector_memory.transcripts.worth import storable

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
"""A prompt waits so long until it is stored. After that the user goes on, and it is stored in the background."""

PATIENCE_AFTERWARDS_SECONDS = 2.0
"""An answer waits longer: the user is reading it. A client that ends now would end the server with it."""

_at_work: set[asyncio.Task[None]] = set()
"""Stores that nobody waits for any more; the event loop itself would let them be collected."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a hook reports. `client`: the client's name. `given`: the fields that the client filled in."""

    store: SessionMemoryStore
    conversation: Conversation
    session_id: str
    heard: HeardSession
    client: str
    given: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field without white space around it; empty if it is missing."""
        return self.given.get(name, "").strip()

    @property
    def is_kept(self) -> bool:
        """Whether what hooks report is stored."""
        return self.conversation.may_store and self.store.settings.capture


async def keep(event: Event, kind: MemoryKind, content: str, agent_id: str = MAIN_AGENT) -> None:
    """Store a text under the client's session, unless nothing may be stored or it is stored already."""
    if event.is_kept and content:
        is_awaited = kind is MemoryKind.INPUT_PROMPT
        patience = PATIENCE_SECONDS if is_awaited else PATIENCE_AFTERWARDS_SECONDS
        await do_meanwhile(stored(event, Said(kind, agent_id, content, utc_now())), patience)


async def do_meanwhile(work: Coroutine[None, None, None], patience: float) -> None:
    """Do something that goes on when the client has given up waiting; wait for it for so many seconds."""
    task = asyncio.create_task(work)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    await asyncio.wait([task], timeout=patience)


async def stored(event: Event, said: Said) -> None:
    """Store what was said; log why it was not."""
    current_call.set(None)  # goes on when the client has given up waiting
    try:
        await in_writers_thread(partial(store_said, event, said))
    except DuplicateMemoryError:
        logger.debug("A hook's %s is stored already", said.kind)
    except Exception as error:
        logger.warning(
            "A hook's %s was not stored: %s", said.kind, error if isinstance(error, VectorMemoryError) else where(error)
        )


def store_said(event: Event, said: Said) -> None:
    """Store what was said. Raises the errors of a store."""
    redacts = event.store.settings.redact is not Redact.OFF
    event.store.store_memory(
        said.kind,
        storable(said.content, redacts=redacts).text,
        captured=True,
        agent_id=current_caller().agent_id or said.agent_id,
        session_id=event.session_id,
        title=as_title(said.title or ""),
        metadata={"project": event.conversation.project.folder},
        created_at=said.time,
    )
