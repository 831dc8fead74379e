"""The half of the SQLite engine that searches read."""

import contextlib
from collections.abc import Iterator, Sequence

import apsw

from vector_memory.domain import Fingerprint, Scope
from vector_memory.storage.ranking import CandidateSource, IndexFeed, Method
from vector_memory.storage.sqlite import chunks, memories
from vector_memory.storage.sqlite.candidates import MemoryCandidates
from vector_memory.storage.sqlite.chunks import ChunkOutline, StoredChunk
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.memories import Memory, Origin
from vector_memory.storage.sqlite.vectors import require_same_fingerprint


class SqliteSearchReader:
    """The SearchReader of a connection's transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @property
    def feed(self) -> IndexFeed:
        """What the index in memory follows."""
        return SqliteFeed(self._connection)

    def candidates(self, scope: Scope, method: Method) -> CandidateSource:
        """Return what ranks the units of a scope, which is of one kind."""
        return MemoryCandidates(self._connection, scope, method)

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError unless vectors of this fingerprint can be compared with those stored."""
        require_same_fingerprint(self._connection, fingerprint)

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return the chunks, by id."""
        return chunks.get_chunks(self._connection, chunk_ids)

    def outlines(self, memory_ids: Sequence[int]) -> list[ChunkOutline]:
        """Return the outlines of all chunks of the documents, by document and position."""
        return chunks.outlines(self._connection, memory_ids)

    def memories(self, memory_ids: Sequence[int]) -> dict[int, Memory]:
        """Return those of the memories that exist, by id."""
        return memories.get_memories(self._connection, memory_ids)

    def origins(self, memory_ids: Sequence[int]) -> dict[int, Origin]:
        """Return where those of the memories that exist come from, by id."""
        return memories.get_origins(self._connection, memory_ids)

    def newest(self, scope: Scope, limit: int, offset: int = 0, *, latest_first: bool = True) -> list[Memory]:
        """Return the memories of a scope by iteration and time, the newest (or the oldest) first."""
        return memories.list_memories(self._connection, scope, limit, offset, latest_first=latest_first)

    def count(self, scope: Scope) -> int:
        """Return how many memories are in a scope."""
        return memories.count_memories(self._connection, scope)

    def count_unindexed(self, scope: Scope) -> int:
        """Return how many memories of a scope have no vectors."""
        return memories.count_unindexed(self._connection, scope)


class SqliteSearchStorage:
    """The SearchStorage of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.contextmanager
    def read(self) -> Iterator[SqliteSearchReader]:
        """Give a snapshot of the memory."""
        with self._database.read() as connection:
            yield SqliteSearchReader(connection)
