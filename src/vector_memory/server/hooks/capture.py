"""Stores what a client's hooks report."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from vector_memory.domain import MemoryKind
from vector_memory.errors import DuplicateMemoryError, VectorMemoryError, where
from vector_memory.server.callers import current_caller
from vector_memory.server.conversation import Conversation
from vector_memory.server.tools.threads import in_writers_thread
from vector_memory.storage.calls import current_call
from vector_memory.store import SessionMemoryStore
from vector_memory.validation import MAX_CONTENT

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
    client: str
    given: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field without white space around it; empty if it is missing."""
        return self.given.get(name, "").strip()


async def keep(event: Event, kind: MemoryKind, content: str, agent_id: str | None = None) -> None:
    """Store a text under the client's session, unless nothing may be stored or it is stored already."""
    if not event.conversation.may_store or not event.store.settings.capture or not content:
        return
    store = partial(
        event.store.store_memory,
        kind,
        content[:MAX_CONTENT],
        captured=True,
        agent_id=current_caller().agent_id or agent_id,
        session_id=event.session_id,
        metadata={"project": event.conversation.project.folder},
    )
    task = asyncio.create_task(_stored(kind, store))
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    is_awaited = kind is MemoryKind.INPUT_PROMPT
    await asyncio.wait([task], timeout=PATIENCE_SECONDS if is_awaited else PATIENCE_AFTERWARDS_SECONDS)


async def _stored(kind: MemoryKind, store: Callable[[], object]) -> None:
    current_call.set(None)  # goes on when the client has given up waiting
    try:
        await in_writers_thread(store)
    except DuplicateMemoryError:
        logger.debug("A hook's %s is stored already", kind)
    except Exception as error:
        logger.warning(
            "A hook's %s was not stored: %s", kind, error if isinstance(error, VectorMemoryError) else where(error)
        )
