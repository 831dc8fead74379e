"""Stores many memories at a time, such as a client's history."""

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from typing import Any, NamedTuple, Self, Unpack

from vector_memory import errors
from vector_memory.domain import MemoryFields, MemoryKind, NewMemory, utc_now
from vector_memory.domain.times import AT_ONCE_SECONDS, microseconds
from vector_memory.settings import Settings, pending_rules, trust_rules
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.deletions import covers
from vector_memory.storage.records import History
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.outbox import Body, Delivery, DeliveryOutcome, Outbox, Verdict, failure
from vector_memory.writing.pending import screened, settled
from vector_memory.writing.writer import MemoryWriter, hash_of, is_deleted, with_title

logger = logging.getLogger(__name__)

Forms = Mapping[str, Collection[str]]
"""The hashes of all forms of a text, with secrets and without, by its hash. Other texts have one form."""

NO_FORMS: Forms = {}


class Sifted(NamedTuple):
    """The memories to store, and the number left out because they were deleted."""

    new: list[NewMemory]
    deleted: int


class Batches:
    """Stores memories without their vectors, which the backfill computes."""

    def __init__(self, storage: Storage, indexer: Indexer, settings: Settings) -> None:
        self._storage = storage
        self._rules = pending_rules(settings.pending), trust_rules(settings.trust)
        self._indexer = indexer

    def new_among(
        self,
        memories: Sequence[NewMemory],
        on_the_way: Collection[tuple[str, str]] = (),
        forms: Forms = NO_FORMS,
        *,
        again: bool = False,
    ) -> Sifted:
        """Find the memories of sessions that are not stored yet, without repetitions, and were not deleted.

        A prompt that its user repeated is no repetition: each stored one matches the nearest in time. So a session's
        prompts are compared together. `on_the_way`: hashes and times of prompts that are about to be stored. `again`:
        also those that were deleted.
        """
        alike: dict[object, list[NewMemory]] = {}
        for memory in memories:
            place = (memory.kind, memory.agent_id, memory.session_id, memory.session_iter, memory.task_code)
            key = (hash_of(memory.content), place, memory.parent_report_id, memory.metadata.get("category"))
            alike.setdefault(key, []).append(memory)
        new: list[NewMemory] = []
        deleted = 0
        with self._storage.read() as reader:
            for each in alike.values():
                first, content_hash = each[0], hash_of(each[0].content)
                times = {time for its_hash, time in on_the_way if its_hash == content_hash}
                times.update(reader.times_of_duplicates(first, content_hash))
                traces = [] if again else reader.deletions.of(first, forms.get(content_hash, (content_hash,)))
                if first.kind is MemoryKind.INPUT_PROMPT:
                    missing = without_nearest(each, times)
                    left = without_nearest(missing, {trace.created_at for trace in traces} - times)
                    new += left
                else:  # one represents all, whatever has happened to it since
                    missing = [] if times else each
                    left = [one for one in missing if not any(covers(trace, one) for trace in traces)]
                    if traces and left == missing:  # clocks differ: the memory was one of these
                        left = without_nearest(left, {trace.created_at for trace in traces})
                    new += left[:1]
                deleted += len(missing) - len(left)
        chosen = set(map(id, new))
        return Sifted([memory for memory in memories if id(memory) in chosen], deleted)

    def let_return(self, memories: Sequence[NewMemory], forms: Forms) -> None:
        """Allow deleted memories to be stored again."""
        with self._storage.write() as writer:
            for memory in memories:
                content_hash = hash_of(memory.content)
                writer.forget_deletions(memory, forms.get(content_hash, (content_hash,)))

    def store(self, memories: Sequence[NewMemory]) -> list[NewMemory]:
        """Store memories in one transaction, and return them without those that were stored before, or deleted.

        Each is found by its words at once. Raises ChunkingError, DatabaseError; then nothing is stored.
        """
        self._storage.require_time_to_write()
        titled = [screened(with_title(memory), *self._rules) for memory in memories]
        prepared = [(each, self._indexer.derived(each.kind, each.title, each.content)) for each in titled]
        stored, now = [], utc_now()
        with self._storage.write() as writer:
            for memory, derived in prepared:
                content_hash, at = hash_of(memory.content), memory.created_at or now
                of_prompt = memory.created_at if memory.kind is MemoryKind.INPUT_PROMPT else None
                is_stored = writer.find_duplicate(memory, content_hash, of_prompt) is not None
                if not is_stored and not is_deleted(writer, memory, (content_hash,)):
                    history = History(at, at, at, is_dated=at < utc_now(AT_ONCE_SECONDS))
                    stored.append(settled(writer, memory, content_hash))
                    writer.add_memory(stored[-1], derived, content_hash=content_hash, history=history)
        return stored


def without_nearest(prompts: Sequence[NewMemory], times: Collection[str]) -> list[NewMemory]:
    """Leave out the prompts nearest to these times."""
    known = {prompt.created_at for prompt in prompts} & set(times)
    left = {microseconds(prompt.created_at or ""): prompt for prompt in prompts if prompt.created_at not in known}
    for time in map(microseconds, set(times) - known):
        if left:
            del left[min(left, key=lambda at: abs(at - time))]
    return list(left.values())


# Accepts hooks' reports: writes a text to the disk before answering its hook, and stores it as soon as possible.

CONTENT, KIND = "content", "memory_type"


class Intake:
    """Keeps texts in an outbox until they are stored."""

    def __init__(self, outbox: Outbox | None, writer: MemoryWriter) -> None:
        self._writer = writer
        self._outbox = outbox
        self.delivery: Delivery[None] = Delivery(outbox, self._stored)
        self._sessions: Collection[str] | None = None

    def limited_to(self, names: Collection[str]) -> Self:
        """Return a view that takes texts of these sessions only."""
        view = copy(self)
        view._sessions = names  # noqa: SLF001 - our own copy
        return view

    def take(self, kind: MemoryKind, content: str, **fields: Unpack[MemoryFields]) -> Future[DeliveryOutcome[None]]:
        """Keep a text, from which secrets have been removed, and have it stored.

        Raises DatabaseError if the disk does not take it, AccessDeniedError for another session.
        """
        self._check(fields.get("session_id"))
        try:
            return self.delivery.take({KIND: kind, CONTENT: content, **fields})
        except errors.DatabaseError as error:
            logger.error("A hook's text is lost: %s", error)  # noqa: TRY400 - the traceback adds nothing
            raise

    def leave_out(self, session_id: str) -> None:
        """Have nothing more of a session kept unasked. Raises OSError, AccessDeniedError."""
        self._check(session_id)
        if self._outbox is not None:
            self._outbox.leave_out(session_id)

    def leaves_out(self, session_id: str) -> bool:
        """Return whether nothing more of a session is to be kept unasked."""
        return self._outbox is not None and self._outbox.leaves_out(session_id)

    def _check(self, session_id: str | None) -> None:
        if self._sessions is not None and session_id not in self._sessions:
            raise errors.denied(self._sessions)

    def _stored(self, body: Body) -> DeliveryOutcome[None]:
        try:
            self._writer.store(memory_of(body), captured=True)
        except (errors.DuplicateMemoryError, errors.DeletedEarlierError):
            pass
        except errors.VectorMemoryError as error:
            return failure(error.code, str(error))
        return DeliveryOutcome(Verdict.STORED)


def memory_of(body: Body) -> NewMemory:
    """Return the memory to store for a waiting text. Raises ValidationError."""
    fields: dict[str, Any] = {name: value for name, value in body.items() if name not in (KIND, CONTENT)}
    return NewMemory.of(body.get(KIND, ""), body.get(CONTENT, ""), **fields)
