"""Accepts what hooks report: writes a text to the disk before answering its hook, and stores it as soon as possible."""

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, Self, Unpack

from vector_memory.domain import MemoryFields, MemoryKind, NewMemory
from vector_memory.errors import DeletedEarlierError, DuplicateMemoryError, VectorMemoryError
from vector_memory.outbox import Body, Delivery, DeliveryOutcome, Outbox, Taken, Verdict, failure
from vector_memory.sessions.writer import MemoryWriter
from vector_memory.storage.restricted import denied

CONTENT, KIND = "content", "memory_type"


class Intake:
    """Keeps texts in outboxes until they are stored."""

    def __init__(self, outboxes: Sequence[Outbox], writer: MemoryWriter) -> None:
        self._writer = writer
        self.delivery: Delivery[None] = Delivery(outboxes, self._stored)
        self._sessions: Collection[str] | None = None

    def limited_to(self, names: Collection[str]) -> Self:
        """Return a view that takes texts of these sessions only."""
        view = copy(self)
        view._sessions = names  # noqa: SLF001 - our own copy
        return view

    def take(self, kind: MemoryKind, content: str, **fields: Unpack[MemoryFields]) -> Taken[None]:
        """Keep a text, from which secrets have been removed, and have it stored.

        Raises DatabaseError if there is no place for it, AccessDeniedError for another session.
        """
        if self._sessions is not None and fields.get("session_id") not in self._sessions:
            raise denied(self._sessions)
        return self.delivery.take({KIND: kind, CONTENT: content, **fields})

    def _stored(self, body: Body) -> DeliveryOutcome[None]:
        try:
            self._writer.store(memory_of(body), captured=True)
        except (DuplicateMemoryError, DeletedEarlierError):
            pass
        except VectorMemoryError as error:
            return failure(error.code, str(error))
        return DeliveryOutcome(Verdict.STORED)


def memory_of(body: Body) -> NewMemory:
    """Return the memory to store for a waiting text. Raises ValidationError."""
    fields: dict[str, Any] = {name: value for name, value in body.items() if name not in (KIND, CONTENT)}
    return NewMemory.of(body.get(KIND, ""), body.get(CONTENT, ""), **fields)
