"""What is read and written in one transaction: implements `storage.base.Reader` and `Writer`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vector_memory.domain import Fingerprint, MemoryKind, NewMemory, Project, Scope
from vector_memory.storage.base import Reader
from vector_memory.storage.postgres import changes, chunks, memories, name_lookup, pending, sessions
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.records import (
    CanonicalTag,
    ChunkOutline,
    CountedBy,
    Cursor,
    Derived,
    EmbeddedPassage,
    Expendable,
    History,
    Lease,
    Memory,
    MemoryCounts,
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
    StoredPassage,
    TagVectors,
)

if TYPE_CHECKING:
    from vector_memory.storage.maintenance_api import Upkeep
    from vector_memory.storage.scoring import CandidateSource, IndexFeed, Method, Numbers, Vectors

# Modules that import numpy are imported where they are used: commands that only list memories do not need it.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.base


class PostgresReader:
    """`storage.base.Reader` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def together(self, *reads: Callable[[Reader], Any]) -> list[Any]:
        return self.connection.gathered(reads, self)

    def memory(self, memory_id: int) -> Memory:
        return memories.require_memory(self.connection, memory_id)

    def memories(self, memory_ids: Sequence[int]) -> dict[int, Memory]:
        return memories.get_memories(self.connection, memory_ids)

    def origins(self, memory_ids: Sequence[int]) -> dict[int, Origin]:
        return memories.get_origins(self.connection, memory_ids)

    def observations_on(self, report_ids: Sequence[int], limit: int, characters: int) -> list[Observation]:
        return memories.get_observations(self.connection, report_ids, limit, characters)

    def neighbours(
        self, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
    ) -> dict[int, Neighbours]:
        return memories.get_neighbours(self.connection, memory_ids, count, characters, same_agent=same_agent)

    def list_memories(self, scope: Scope, limit: int, offset: int = 0, *, order: Order = "newest") -> list[Memory]:
        return memories.list_memories(self.connection, scope, limit, offset, latest_first=order == "newest")

    def timeline(self, scope: Scope, limit: int, characters: int) -> list[Moment]:
        return sessions.latest_moments(self.connection, scope, limit, characters)

    def ids(self, scope: Scope) -> list[int]:
        return memories.memory_ids(self.connection, scope)

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        from vector_memory.storage.postgres import insert

        return insert.find_duplicate(self.connection, new, content_hash, at)

    def times_of_duplicates(self, new: NewMemory, content_hash: str) -> list[str]:
        from vector_memory.storage.postgres import insert

        return insert.times_of_duplicates(self.connection, new, content_hash)

    def find_report(
        self, *, content_hash: str, agent_id: str, session_id: str | None, session_iter: int, task_code: str | None
    ) -> int | None:
        return memories.find_report(self.connection, content_hash, agent_id, session_id, session_iter, task_code)

    def chunk(self, chunk_id: int) -> StoredChunk | None:
        return chunks.get_chunk(self.connection, chunk_id)

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        return chunks.get_chunks(self.connection, chunk_ids)

    def chunks_of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        return chunks.chunks_of(self.connection, memory_id, first, last)

    def outlines(self, memory_ids: Sequence[int]) -> list[ChunkOutline]:
        return chunks.outlines(self.connection, memory_ids)

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        from vector_memory.storage.postgres import memory_vectors

        return memory_vectors.passages_of(self.connection, memory)

    def embedded_passages(self, memory_id: int) -> list[EmbeddedPassage]:
        from vector_memory.storage.postgres import memory_vectors

        return memory_vectors.embedded_passages(self.connection, memory_id)

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[Numbers, Vectors]":
        from vector_memory.storage.postgres import memory_vectors

        return memory_vectors.mean_vectors(self.connection, memory_ids)

    def count(self, scope: Scope, *, since: str | None = None, without_vectors: bool = False) -> int:
        if without_vectors:
            return memories.count_unindexed(self.connection, scope)
        return memories.count_memories(self.connection, scope, since)

    def count_all(self) -> int:
        return self.count(Scope())

    def count_by(self, scope: Scope, by: CountedBy) -> dict[str, int]:
        return memories.count_by(self.connection, scope, by)

    def sessions(self, scope: Scope, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
        return sessions.list_sessions(self.connection, scope, limit, agents)

    def latest_session(self, project: Project, besides: str | None = None) -> str | None:
        return sessions.latest_session(self.connection, project, besides)

    def left_since(self, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
        return sessions.left_since(self.connection, span, kind, limit, characters)

    def session_counts(self, session_id: str) -> SessionCounts:
        return sessions.session_counts(self.connection, session_id)

    def statistics(self) -> MemoryCounts:
        return sessions.memory_counts(self.connection)

    def find_names(self, by: NamedBy, part: str, scope: Scope, limit: int) -> tuple[list[str], int]:
        return name_lookup.names_with(self.connection, by, part, scope, limit)

    def expendable(self, before: str, *, tagged: bool, limit: int | None = None) -> list[Expendable]:
        return memories.expendable(self.connection, before, tagged=tagged, limit=limit)

    def cursor(self) -> Cursor:
        return changes.cursor(self.connection)

    def changes_after(self, cursor: Cursor, scope: Scope, limit: int) -> list[Memory]:
        return changes.changes_after(self.connection, cursor, scope, limit)

    def fingerprint(self) -> Fingerprint | None:
        from vector_memory.storage.postgres import vectors

        return vectors.fingerprint_of(self.connection)

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        from vector_memory.storage.postgres import vectors

        vectors.require_same_fingerprint(self.connection, fingerprint)

    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        from vector_memory.storage.postgres import vectors

        return vectors.token_states(self.connection, kind, unit_ids)

    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        from vector_memory.storage.postgres.candidates import PostgresCandidates

        return PostgresCandidates(self.connection, scope, method)

    def visible(self, scope: Scope) -> Scope:
        return scope

    @cached_property
    def feed(self) -> "IndexFeed":
        from vector_memory.storage.postgres.feed import PostgresFeed

        return PostgresFeed(self.connection)

    @property
    def upkeep(self) -> "Upkeep":
        from vector_memory.storage.postgres.maintenance_api import PostgresUpkeep

        return PostgresUpkeep(self.connection)

    def next_without_vectors(self, after_id: int, *, given_up: bool = False) -> Memory | None:
        return pending.next_unindexed(self.connection, after_id, given_up=given_up)

    def next_leased(self, owner: str, most_characters: int | None = None) -> Memory | None:
        return pending.next_leased(self.connection, owner, most_characters)

    def can_take_over(self, owner: str) -> bool:
        return pending.can_take_over(self.connection, owner)

    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Pending:
        return pending.pending(self.connection, scope, until, owner)

    def canonical_tags(self, among: Collection[str] | None = None) -> list[CanonicalTag]:
        from vector_memory.storage.postgres import tags

        return tags.canonical_tags(self.connection, among)

    def tag_vectors(self, dimensions: int) -> TagVectors:
        from vector_memory.storage.postgres import tags

        return tags.known_tags(self.connection, dimensions)


class PostgresWriter(PostgresReader):
    """`storage.base.Writer` over a connection in a write transaction."""

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        from vector_memory.storage.postgres import insert

        return insert.find_duplicate_ahead(self.connection, new, content_hash, at)

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        from vector_memory.storage.postgres import insert

        return insert.add_memory(self.connection, new, derived, content_hash=content_hash, history=history)

    def add_vectors(self, memory: Memory, derived: Derived, *, after: int, is_last: bool) -> bool:
        from vector_memory.storage.postgres import insert

        return insert.add_vectors(self.connection, memory, derived, after=after, is_last=is_last)

    def discard_vectors(self, memory_id: int) -> None:
        from vector_memory.storage.postgres import vectors

        vectors.discard_partial_vectors(self.connection, memory_id)

    def defer_vectors(self, memory_id: int, lease: Lease) -> None:
        pending.defer_vectors(self.connection, memory_id, lease)

    def defer_missing_vectors(self) -> None:
        pending.defer_missing_vectors(self.connection)

    def renew_leases(self, lease: Lease) -> None:
        pending.renew_leases(self.connection, lease)

    def take_over(self, lease: Lease) -> None:
        pending.take_over(self.connection, lease)

    def release_leases(self, owner: str, failed: int | None = None) -> None:
        pending.release_leases(self.connection, owner, failed)

    def delete(self, memory_id: int) -> int | None:
        from vector_memory.storage.postgres import insert

        return insert.delete_memory(self.connection, memory_id)

    def set_tags(self, memory_id: int, tags: Sequence[str], now: str) -> None:
        memories.set_tags(self.connection, memory_id, tags, now)

    def record_access(self, memory_ids: Sequence[int], now: str) -> None:
        memories.record_access(self.connection, memory_ids, now)

    def set_tag_vectors(self, vectors: "Mapping[str, Vectors]", fingerprint: Fingerprint) -> None:
        from vector_memory.storage.postgres import tags

        tags.set_vectors(self.connection, vectors, fingerprint)

    def count_tag(self, tag: str, vector: "Vectors | None", now: str) -> None:
        from vector_memory.storage.postgres import tags

        tags.count_use(self.connection, tag, vector, now)
