"""What the rest of the package asks of a storage engine, and what every engine promises.

- A block of `read` sees one unchanging state, whatever others commit meanwhile, and never waits for writers.
- A block of `write` sees the newest state, commits when it ends, and changes nothing if it raises.
- Ids ascend in the order of commits, whichever process writes, and no id is used twice. Cursors rest on this.
- What a method returns is a value of `storage.records`, complete: it can be used after the block.
- Every failure is a DatabaseError or one of its kind. What the file holds and should not raises DamagedError.

Readers and writers belong to one thread, and only to the block that gave them.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol

from vector_memory.domain import Fingerprint, NewMemory, Scope
from vector_memory.storage.records import (
    CanonicalTag,
    ChunkOutline,
    Cursor,
    Derived,
    Expendable,
    History,
    Memory,
    MemoryCounts,
    Moment,
    NamedBy,
    Observation,
    Origin,
    SessionCounts,
    SessionSummary,
    StoredChunk,
    StoredPassage,
    TagVectors,
    UnitWords,
)

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.ranking import CandidateSource, IndexFeed, Method

Order = Literal["newest", "oldest"]
"""By iteration, then by time, then by id."""

CountedBy = Literal["kind", "category", "tag"]
"""A memory is counted under each of its tags."""


class Storage(Protocol):
    """One open memory: a file, or a schema of a database server. Safe to use from several threads and processes."""

    @property
    def read_only(self) -> bool:
        """Whether `write` is refused: because it was opened like that, or because there is no space left."""

    def read(self) -> AbstractContextManager["Reader"]:
        """Give a reader of one state. Raises ClosedMemoryError after `close`."""

    def write(self) -> AbstractContextManager["Writer"]:
        """Give a writer inside one transaction.

        Raises DatabaseLockError if others write for too long, CancelledCallError if the client cancelled the call
        while it waited, ClosedMemoryError after `close`.
        """

    def require_time_to_write(self) -> None:
        """Raise what `write` would raise at once. Call it before a long preparation."""

    def prepare_words(self, texts: Sequence[str]) -> UnitWords:
        """Return what the keyword index holds of a memory's units.

        This takes most of the time of storing a memory: call it before `write`.
        """

    def purge_deleted(self) -> bool:
        """Overwrite the bytes of what was deleted; False if somebody still reads them, and it is done later."""

    def close(self) -> None:
        """Close after the transaction that is under way. Repeated calls do nothing."""


class Reader(Protocol):
    """One state of a memory."""

    # Memories

    def memory(self, memory_id: int) -> Memory:
        """Return a memory. Raises NotFoundError."""

    def memories(self, memory_ids: Sequence[int]) -> dict[int, Memory]:
        """Return those of the memories that exist, by id."""

    def origins(self, memory_ids: Sequence[int]) -> dict[int, Origin]:
        """Return the origins of those of the memories that exist, by id. No text is read."""

    def observations_on(self, report_ids: Sequence[int], limit: int, characters: int) -> list[Observation]:
        """Return the last observations on these reports, the oldest first, with the beginnings of their text."""

    def list_memories(self, scope: Scope, limit: int, offset: int = 0, *, order: Order = "newest") -> list[Memory]:
        """Return the memories of a scope after the first `offset`."""

    def timeline(self, scope: Scope, limit: int, characters: int) -> list[Moment]:
        """Return the memories of a scope that were stored last, the oldest first, with the beginnings of their text."""

    def ids(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope, ascending."""

    def find_duplicate(self, new: NewMemory, content_hash: str) -> int | None:
        """Return the id of the memory that has the same text in the same place, or None."""

    def find_report(
        self,
        *,
        content_hash: str,
        agent_id: str,
        session_id: str | None,
        session_iter: int,
        task_code: str | None,
    ) -> int | None:
        """Return the id of the report that has this text in this place, or None."""

    # Chunks and passages

    def chunk(self, chunk_id: int) -> StoredChunk | None:
        """Return a chunk, or None."""

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return the chunks, by id. Raises DatabaseError if one is missing."""

    def chunks_of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """Return a document's chunks in order: those at the positions `first` to `last`, inclusive, or all."""

    def outlines(self, memory_ids: Sequence[int]) -> list[ChunkOutline]:
        """Return all chunks of the documents without their texts, by document and position."""

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        """Return a memory's passages that have vectors, in order."""

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Return the ids of those memories that have vectors, ascending, and the means, shape (ids, dimensions)."""

    # Counts

    def count(self, scope: Scope, *, since: str | None = None, without_vectors: bool = False) -> int:
        """Return how many memories are in a scope: created at `since` or later; only those `without_vectors`."""

    def count_by(self, scope: Scope, by: CountedBy) -> dict[str, int]:
        """Return how many memories of a scope there are of each kind, category or tag that it has.

        In the order of the names. Memories whose category is no text, or that have none, are counted as "".
        """

    def sessions(self, agent_id: str | None, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
        """Return sessions, latest activity first, with so many agents each, and how many sessions there are.

        With an agent only its memories count.
        """

    def session_counts(self, session_id: str) -> SessionCounts:
        """Return what a session holds; a session that nobody stored in is empty."""

    def statistics(self) -> MemoryCounts:
        """Return what the whole memory holds."""

    def find_names(self, by: NamedBy, part: str, session_id: str | None, limit: int) -> tuple[list[str], int]:
        """Return names that contain a part, and how many there are in all; with a session only those used in it.

        Those that begin with it come first, then those used last. Upper and lower case count as equal in ASCII.
        """

    def expendable(self, before: str, *, tagged: bool, limit: int | None = None) -> list[Expendable]:
        """Return memories created before that time, tagged ones or all others.

        The oldest first; of tagged ones, those that were read least.
        """

    # What is new

    def cursor(self) -> Cursor:
        """Return the point behind everything that was ever committed, deleted memories included."""

    def changes_after(self, cursor: Cursor, scope: Scope, limit: int) -> list[Memory]:
        """Return the first memories of a scope behind a cursor, in the order of their commits."""

    # Vectors

    def fingerprint(self) -> Fingerprint | None:
        """Return what made the vectors, or None while there are none."""

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError if vectors of this fingerprint may not join those that are stored."""

    def next_without_vectors(self, after_id: int) -> Memory | None:
        """Return the memory without vectors that has the smallest id above `after_id`."""

    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        """Return what ranks the units of a scope, which is of one kind."""

    @property
    def feed(self) -> "IndexFeed | None":
        """What an index in memory follows; None if the engine has no feed."""

    # Tags

    def canonical_tags(self, among: Collection[str] | None = None) -> list[CanonicalTag]:
        """Return the canonical tags, or those among some: the most frequent first, then in alphabetical order."""

    def tag_vectors(self, dimensions: int) -> TagVectors:
        """Return what tags are compared with; vectors of another length count as missing."""


class Writer(Reader, Protocol):
    """The newest state of a memory, and the right to change it."""

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        """Add a memory with everything that is derived from it, and return its id, the largest so far.

        Raises EmbeddingUnavailableError, having added nothing, if its vectors are not comparable with those stored.
        """

    def complete_memory(self, memory: Memory, derived: Derived) -> bool:
        """Give a stored memory its vectors, and its chunks if it has none; False if that is no longer needed.

        Raises EmbeddingUnavailableError as `add_memory`.
        """

    def delete(self, memory_id: int) -> int | None:
        """Delete a memory with everything derived from it; return how many chunks it had, None if there was none."""

    def record_access(self, memory_ids: Sequence[int], now: str) -> None:
        """Count one reading of each of the memories; an id that is given twice was read twice."""

    def set_tag_vectors(self, vectors: "Mapping[str, NDArray[np.float32]]", fingerprint: Fingerprint) -> None:
        """Give those of the tags that are canonical their vectors. Raises EmbeddingUnavailableError as `add_memory`."""

    def count_tag(self, tag: str, vector: "NDArray[np.float32] | None", now: str) -> None:
        """Note that one more memory has a tag, which becomes canonical if it is not."""
