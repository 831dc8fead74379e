"""The interface of a storage engine, and what every engine guarantees.

- A `read` block sees one snapshot, even if others commit in the meantime, and never waits for writers.
- A `write` block sees the newest state, commits when it ends, and changes nothing if it raises.
- Ids ascend in the order of commits across all processes, and no id is reused. Cursors depend on this.
- Methods return complete values of `storage.records`, which can be used after the block.
- Every failure is a DatabaseError or a subclass. Invalid contents of the file raise DamagedError.

A reader or writer may be used only by one thread and only inside its block.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from vector_memory.domain import Chunk, Fingerprint, MemoryKind, NewMemory, Project, Scope
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
    UnitWords,
)

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.maintenance_api import Upkeep
    from vector_memory.storage.scoring import CandidateSource, IndexFeed, Method


class Storage(Protocol):
    """An open memory: a file, or a schema of a database server. Safe to use from several threads and processes."""

    @property
    def read_only(self) -> bool:
        """Whether `write` is refused, because the memory was opened read-only or the disk is full."""

    def read(self) -> AbstractContextManager["Reader"]:
        """Yield a reader of one snapshot. Raises ClosedMemoryError after `close`."""

    def write(self) -> AbstractContextManager["Writer"]:
        """Yield a writer inside one transaction.

        Raises DatabaseLockError if others hold the lock for too long, CancelledCallError if the client cancelled the
        call while it waited, ClosedMemoryError after `close`.
        """

    def version(self) -> int:
        """Return a number that changes with every commit of any process."""

    def require_time_to_write(self) -> None:
        """Raise any error that `write` would raise at once. Call this before a long preparation."""

    def prepare_words(self, texts: Sequence[str]) -> UnitWords:
        """Return the keyword index entries of a memory's units.

        This takes most of the time needed to store a memory, so call it before `write`.
        """

    def finish_upgrade(self, cut: Callable[[str], Sequence[Chunk]]) -> None:
        """Index words by earlier rules again, and cut the documents that an upgrade has left without chunks.

        `cut` returns the chunks of a document. Not in one transaction: what is done stays done.
        """

    def purge_deleted(self) -> bool:
        """Overwrite the bytes of deleted data; False if it is still being read and will be overwritten later."""

    def close(self) -> None:
        """Close after the current transaction. Repeated calls do nothing."""


class Reader(Protocol):
    """One snapshot of a memory."""

    def together(self, *reads: Callable[["Reader"], Any]) -> list[Any]:
        """Return what reads return that do not need each other. An engine may ask for all of it in one round trip."""

    # Memories

    def memory(self, memory_id: int) -> Memory:
        """Return a memory. Raises NotFoundError."""

    def memories(self, memory_ids: Sequence[int]) -> dict[int, Memory]:
        """Return the memories that exist, by id."""

    def origins(self, memory_ids: Sequence[int]) -> dict[int, Origin]:
        """Return the origins of the memories that exist, by id, without reading texts."""

    def observations_on(self, report_ids: Sequence[int], limit: int, characters: int) -> list[Observation]:
        """Return the last observations on these reports, the oldest first, with the beginnings of their text."""

    def neighbours(
        self, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
    ) -> dict[int, Neighbours]:
        """Return the beginnings of what stands beside memories, among those of their kind, session and iteration.

        Only what hooks and imports have stored of a conversation stands beside anything: its metadata name a project.
        """

    def list_memories(self, scope: Scope, limit: int, offset: int = 0, *, order: Order = "newest") -> list[Memory]:
        """Return up to `limit` memories of a scope after the first `offset`."""

    def timeline(self, scope: Scope, limit: int, characters: int) -> list[Moment]:
        """Return the `limit` newest memories of a scope, oldest first, with the first `characters` of their text."""

    def ids(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope, ascending."""

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        """Return the id of the memory with the same text, kind, session, iteration, agent and task, or None.

        `at`: only of one that was created at this time.
        """

    def times_of_duplicates(self, new: NewMemory, content_hash: str) -> list[str]:
        """Return when the memories with the same text, kind, session, iteration, agent and task were created."""

    def find_report(
        self, *, content_hash: str, agent_id: str, session_id: str | None, session_iter: int, task_code: str | None
    ) -> int | None:
        """Return the id of the report with this text, session, iteration, agent and task, or None."""

    # Chunks and passages

    def chunk(self, chunk_id: int) -> StoredChunk | None:
        """Return a chunk, or None."""

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return the chunks, by id. Raises DatabaseError if one is missing."""

    def chunks_of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """Return a document's chunks at the positions `first` to `last`, inclusive, in order; default: all."""

    def outlines(self, memory_ids: Sequence[int]) -> list[ChunkOutline]:
        """Return all chunks of the documents without their texts, ordered by document and position."""

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""

    def embedded_passages(self, memory_id: int) -> list[EmbeddedPassage]:
        """Return the passages of a memory that have vectors so far, in order."""

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Return the ids of the memories that have all vectors, ascending, and their means, shape (ids, dimensions)."""

    # Counts

    def count(self, scope: Scope, *, since: str | None = None, without_vectors: bool = False) -> int:
        """Return the number of memories in a scope, optionally created at `since` or later, or `without_vectors`."""

    def count_all(self) -> int:
        """Return the number of memories, also of those that may not be seen."""

    def count_by(self, scope: Scope, by: CountedBy) -> dict[str, int]:
        """Return the number of memories by kind, tag or category ("" if it has none that is text), sorted by name."""

    def sessions(self, scope: Scope, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
        """Return up to `limit` sessions of a scope with up to `agents` agents each, latest first, and their total."""

    def latest_session(self, project: Project, besides: str | None = None) -> str | None:
        """Return the session of a project in which the user spoke last, or else its latest one; never `besides`."""

    def left_since(self, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
        """Return the newest memories of a kind in a span, oldest first, with the first `characters` of their text."""

    def session_counts(self, session_id: str) -> SessionCounts:
        """Return the statistics of a session; those of an unknown session are zero."""

    def statistics(self) -> MemoryCounts:
        """Return the statistics of the whole memory."""

    def find_names(self, by: NamedBy, part: str, scope: Scope, limit: int) -> tuple[list[str], int]:
        """Return up to `limit` names from the sessions of a scope that contain `part`, and their total number.

        Names that start with `part` come first, then the most recently used. ASCII letters match in either case.
        """

    def expendable(self, before: str, *, tagged: bool, limit: int | None = None) -> list[Expendable]:
        """Return memories created before a time: tagged ones, the least read first, or all others, the oldest first."""

    # Changes

    def cursor(self) -> Cursor:
        """Return the cursor after everything that was ever committed, including deleted memories."""

    def changes_after(self, cursor: Cursor, scope: Scope, limit: int) -> list[Memory]:
        """Return the first `limit` memories of a scope after a cursor, in the order of their commits."""

    # Vectors

    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of the stored vectors, or None if there are none."""

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError if vectors with this fingerprint are not comparable with the stored ones."""

    def next_without_vectors(self, after_id: int, *, given_up: bool = False) -> Memory | None:
        """Return the memory with the smallest id above `after_id` that lacks vectors, and that nobody works on.

        `given_up`: one that several processes took over without getting anywhere; else any other.
        """

    def next_leased(self, owner: str, most_characters: int | None = None) -> Memory | None:
        """Return the oldest memory, of no more characters, whose vectors a process has promised."""

    def can_take_over(self, owner: str) -> bool:
        """Return whether there is a memory for a process to take over: left behind, or of one that has many."""

    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Pending:
        """Return which memories of a scope have vectors that somebody is computing now, with ids up to `until`.

        `owner`: only those that this process has promised.
        """

    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        """Return the states of the tokens of each passage of units of a kind, by unit; None: they are not kept."""

    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        """Return the source that ranks the units of a scope, which must have a kind."""

    def visible(self, scope: Scope) -> Scope:
        """Return the part of a scope that this reader may see. Readers narrow the scopes they are given themselves."""

    @property
    def feed(self) -> "IndexFeed | None":
        """The feed for an index in memory; None if the engine has none."""

    @property
    def upkeep(self) -> "Upkeep":
        """What only maintenance needs, in the same transaction."""

    # Tags

    def canonical_tags(self, among: Collection[str] | None = None) -> list[CanonicalTag]:
        """Return the canonical tags, optionally only those in `among`: most frequent first, then alphabetically."""

    def tag_vectors(self, dimensions: int) -> TagVectors:
        """Return the canonical tags with their vectors. Vectors of another length count as missing."""


class Writer(Reader, Protocol):
    """A reader of the newest state that can also change it."""

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        """Add a memory with everything derived from it; return its id, which is the largest so far.

        Raises EmbeddingUnavailableError, without adding anything, if its vectors are not comparable with the stored
        ones.
        """

    def add_vectors(self, memory: Memory, derived: Derived, *, after: int, is_last: bool) -> bool:
        """Add vectors of a stored memory that has those of its first `after` passages, and chunks if it has none.

        `is_last`: it then has all its vectors. False, having added nothing: another process was faster, or the memory
        is gone. Raises EmbeddingUnavailableError like `add_memory`.
        """

    def discard_vectors(self, memory_id: int) -> None:
        """Delete the vectors of a memory that does not have all of them."""

    def defer_vectors(self, memory_id: int, lease: Lease) -> None:
        """Note that the holder of the lease computes the vectors of a memory after this transaction."""

    def defer_missing_vectors(self) -> None:
        """Leave all memories without vectors to whoever takes them over."""

    def renew_leases(self, lease: Lease) -> None:
        """Let the holder's leases end later."""

    def take_over(self, lease: Lease) -> None:
        """Lease the oldest memory that was left behind, or else the newest of the process that has the most left.

        Of a process that has only a few left, none is taken.
        A memory that was taken over several times without getting any new vectors is given up: `next_without_vectors`
        returns it on request.
        """

    def release_leases(self, owner: str, failed: int | None = None) -> None:
        """Let any process go on with what this one has not done, or a few times with the memory that has `failed`."""

    def delete(self, memory_id: int) -> int | None:
        """Delete a memory with everything derived from it; return its number of chunks, or None if it did not exist."""

    def set_tags(self, memory_id: int, tags: Sequence[str], now: str) -> None:
        """Replace the tags of a memory."""

    def record_access(self, memory_ids: Sequence[int], now: str) -> None:
        """Count one read of each memory. An id that is given twice was read twice."""

    def set_tag_vectors(self, vectors: "Mapping[str, NDArray[np.float32]]", fingerprint: Fingerprint) -> None:
        """Set the vectors of the tags that are canonical. Raises EmbeddingUnavailableError like `add_memory`."""

    def count_tag(self, tag: str, vector: "NDArray[np.float32] | None", now: str) -> None:
        """Count one more memory with a tag, and make the tag canonical if it is new."""
