"""A memory of which only some sessions may be seen or changed, over any engine.

Whatever is not defined here cannot be reached: other sessions, knowledge and tagged memories, statistics of the whole,
cleaning up, and tags. Sessions that may not be seen are as if they did not exist.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from vector_memory.domain import STORED, MemoryKind, NewMemory, Project, Scope
from vector_memory.errors import AccessDeniedError, no_memory
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.queries.lifecycle import Supersession
from vector_memory.storage.queries.traces import Trace
from vector_memory.storage.records import (
    Activity,
    ChunkOutline,
    CountedBy,
    Cursor,
    Derived,
    History,
    Later,
    Link,
    ListPosition,
    Memory,
    Moment,
    NamedBy,
    Neighbours,
    Observation,
    Order,
    Origin,
    Pending,
    SessionCounts,
    SessionSummary,
    Span,
    StoredChunk,
)

# ruff: noqa: D102 - the methods are described in storage.base


Whole = TypeVar("Whole")


def denied(sessions: Collection[str]) -> AccessDeniedError:
    """Return the error for whatever is not in the sessions that a token is limited to."""
    return AccessDeniedError(f"This token is limited to sessions: {', '.join(sessions)}.")


class Limited(Generic[Whole]):
    """What is limited to some sessions."""

    unlimited: ClassVar[frozenset[str]]
    """What can be reached as it is: it says nothing of a session that the caller cannot know."""

    def __init__(self, whole: Whole, sessions: Collection[str]) -> None:
        self._whole = whole
        self._sessions = tuple(sessions)

    def __getattr__(self, name: str) -> Any:
        if name in self.unlimited:
            return getattr(self._whole, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise denied(self._sessions)


class LimitedReader(Limited[Reader]):
    """What a reader sees of some sessions.

    A search asks for token states and links of what it has found in visible sessions. A new memory is compared with the
    passages of all; links that may not be seen are not read.
    """

    unlimited = frozenset(
        {
            "token_states",
            "links_among",
            "passage_texts",
            "count_all",
            "fingerprint",
            "require_comparable",
            "begin_ahead",
            "end_ahead",
            "require_current",
            "candidates",
            "now",
            "run",
            "together",
        }
    )

    def visible(self, scope: Scope) -> Scope:
        return replace(scope, sessions=self._sessions)

    def memory(self, memory_id: int) -> Memory:
        self._require(memory_id)
        return self._whole.memory(memory_id)

    @read
    def memories(self, memory_ids: Sequence[int]) -> Steps[dict[int, Memory]]:
        return (yield from self._whole.memories.steps((yield from self._seen(memory_ids))))

    @read
    def origins(self, memory_ids: Sequence[int]) -> Steps[dict[int, Origin]]:
        found = yield from self._whole.origins.steps(memory_ids)
        return {number: origin for number, origin in found.items() if origin.session_id in self._sessions}

    @read
    def observations_on(
        self, report_ids: Sequence[int], limit: int, characters: int, scope: Scope
    ) -> Steps[list[Observation]]:
        seen = yield from self._seen(report_ids)
        return (yield from self._whole.observations_on.steps(seen, limit, characters, self.visible(scope)))

    @read
    def neighbours(
        self, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
    ) -> Steps[dict[int, Neighbours]]:
        seen = yield from self._seen(memory_ids)
        return (yield from self._whole.neighbours.steps(seen, count, characters, same_agent=same_agent))

    @read
    def later_than(self, memory_ids: Sequence[int], scope: Scope, characters: int) -> Steps[list[Later]]:
        seen = yield from self._seen(memory_ids)
        return (yield from self._whole.later_than.steps(seen, self.visible(scope), characters))

    def links_within(self, scope: Scope) -> list[Link]:
        return self._whole.links_within(self.visible(scope))

    def unread(self, scope: Scope, before: str) -> list[int]:
        return self._whole.unread(self.visible(scope), before)

    def list_memories(
        self, scope: Scope, limit: int, offset: int = 0, *, order: Order = "newest", after: ListPosition | None = None
    ) -> list[Memory]:
        return self._whole.list_memories(self.visible(scope), limit, offset, order=order, after=after)

    def pinned(self, scope: Scope, limit: int) -> list[Memory]:
        return self._whole.pinned(self.visible(scope), limit)

    def timeline(self, scope: Scope, limit: int, characters: int, offset: int = 0) -> list[Moment]:
        return self._whole.timeline(self.visible(scope), limit, characters, offset)

    def newest(self, scope: Scope) -> list[int]:
        return self._whole.newest(self.visible(scope))

    def moments(self, memory_ids: Sequence[int], characters: int) -> list[Moment]:
        return self._whole.moments(self.run(self._seen(memory_ids)), characters)

    def activity(self, scope: Scope) -> list[Activity]:
        return self._whole.activity(self.visible(scope))

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        self.require_writable(new.session_id)
        return self._whole.find_duplicate(new, content_hash, at)

    def times_of_duplicates(self, new: NewMemory, content_hash: str) -> list[str]:
        self.require_writable(new.session_id)
        return self._whole.times_of_duplicates(new, content_hash)

    def traces_of(self, new: NewMemory, hashes: Iterable[str]) -> list[Trace]:
        self.require_writable(new.session_id)
        return self._whole.traces_of(new, hashes)

    def chunk(self, chunk_id: int) -> StoredChunk | None:
        found = self._whole.chunk(chunk_id)
        if found is not None:
            self.require_unexpired(found.memory_id)
        return found if found is not None and self.origins([found.memory_id]) else None

    @read
    def chunks(self, chunk_ids: Sequence[int]) -> Steps[dict[int, StoredChunk]]:
        found = yield from self._whole.chunks.steps(chunk_ids)
        seen = yield from self.origins.steps([chunk.memory_id for chunk in found.values()])
        return {number: chunk for number, chunk in found.items() if chunk.memory_id in seen}

    def chunks_of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        return self._whole.chunks_of(memory_id, first, last) if self.origins([memory_id]) else []

    def outlines(self, memory_ids: Sequence[int]) -> list[ChunkOutline]:
        return self._whole.outlines(self.run(self._seen(memory_ids)))

    @read
    def count(self, scope: Scope, *, since: str | None = None, without_vectors: bool = False) -> Steps[int]:
        scope = self.visible(scope)
        return self._whole.count.steps(scope, since=since, without_vectors=without_vectors)

    @read
    def count_superseded(self, scope: Scope) -> Steps[int]:
        return self._whole.count_superseded.steps(self.visible(scope))

    @read
    def superseding(self, memory_ids: Collection[int]) -> Steps[list[Supersession]]:
        return (yield from self._seen_links((yield from self._whole.superseding.steps(memory_ids))))

    @read
    def superseded_by(self, memory_ids: Collection[int]) -> Steps[list[Supersession]]:
        return (yield from self._seen_links((yield from self._whole.superseded_by.steps(memory_ids))))

    @read
    def count_by(self, scope: Scope, by: CountedBy) -> Steps[dict[str, int]]:
        return self._whole.count_by.steps(self.visible(scope), by)

    def sessions(self, scope: Scope, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
        return self._whole.sessions(self.visible(scope), limit, agents)

    def latest_session(self, project: Project, besides: str | None = None) -> str | None:
        del project  # these sessions are all there is
        latest, _ = self.sessions(Scope(), 2, 1)
        return next((one.session_id for one in latest if one.session_id != besides), None)

    def left_since(self, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
        del span, kind, limit, characters  # of sessions that may not be seen
        return []

    def session_counts(self, session_id: str) -> SessionCounts:
        self.require_writable(session_id)
        return self._whole.session_counts(session_id)

    def find_names(self, by: NamedBy, part: str, scope: Scope, limit: int) -> tuple[list[str], int]:
        return self._whole.find_names(by, part, self.visible(scope), limit)

    def cursor(self) -> Cursor:
        # The newest of all would tell how much other sessions store, and when.
        newest = max(self._whole.ids(self.visible(Scope(as_of=STORED))), default=0)
        return Cursor(newest, may_fall=True, gaps=self._whole.cursor().gaps)

    def changes_after(self, cursor: Cursor, scope: Scope, limit: int) -> list[Memory]:
        return self._whole.changes_after(cursor, self.visible(scope), limit)

    @read
    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Steps[Pending]:
        return self._whole.pending.steps(self.visible(scope), until, owner)

    def require_writable(self, session_id: str | None) -> None:
        """Raise AccessDeniedError for a session that is not one of these."""
        if session_id not in self._sessions:
            raise denied(self._sessions)

    def _seen(self, memory_ids: Sequence[int]) -> Steps[list[int]]:
        seen = yield from self.origins.steps(memory_ids)
        return [number for number in memory_ids if number in seen]

    def require_unexpired(self, memory_id: int) -> None:
        self._whole.require_unexpired(memory_id, self.visible(Scope(as_of=STORED)))

    def _seen_links(self, links: Sequence[Supersession]) -> Steps[list[Supersession]]:
        seen = yield from self.origins.steps(list({memory_id for link in links for memory_id in link}))
        return [link for link in links if link.older_id in seen and link.newer_id in seen]

    def _require(self, memory_id: int) -> None:
        if not self.origins([memory_id]):
            self.require_unexpired(memory_id)
            raise no_memory(memory_id)


class LimitedWriter(LimitedReader):
    """What a writer may do in some sessions: it changes what it has just added or found."""

    unlimited = LimitedReader.unlimited | {"defer_vectors", "record_access"}

    def __init__(self, writer: Writer, sessions: Collection[str]) -> None:
        super().__init__(writer, sessions)
        self._writer = writer

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        self.require_writable(new.session_id)
        return self._writer.add_memory(new, derived, content_hash=content_hash, history=history)

    def supersede(self, newer_id: int, older_ids: Iterable[int]) -> None:
        self._require(newer_id)
        self._writer.supersede(newer_id, self.run(self._seen(list(older_ids))))

    def release(self, newer_id: int, older_ids: Iterable[int]) -> None:
        self._require(newer_id)
        self._writer.release(newer_id, self.run(self._seen(list(older_ids))))

    def bypass(self, memory_id: int) -> list[int]:
        return self._writer.bypass(memory_id) if self.origins([memory_id]) else []

    def delete(self, memory_id: int, *, for_good: bool = True) -> int | None:
        return self._writer.delete(memory_id, for_good=for_good) if self.origins([memory_id]) else None

    def pin(self, memory_id: int, *, pinned: bool) -> None:
        self._require(memory_id)
        self._writer.pin(memory_id, pinned=pinned)

    def amend(self, memory: Memory, words: Any, now: str) -> bool:
        self._require(memory.id)
        return self._writer.amend(memory, words, now)


class LimitedStorage(Limited[Storage]):
    """A storage in which only some sessions exist."""

    unlimited = frozenset({"read_only", "version", "require_time_to_write", "confirm", "purge_deleted"})

    @contextmanager
    def read(self) -> Iterator[LimitedReader]:
        with self._whole.read() as reader:
            yield LimitedReader(reader, self._sessions)

    @contextmanager
    def write(self) -> Iterator[LimitedWriter]:
        with self._whole.write() as writer:
            yield LimitedWriter(writer, self._sessions)
