"""Opens a memory with the engine that its address names, whole or limited to some sessions.

No other module knows more than one engine. Of a limited memory, the connection limits what it reads
(`storage.connection`). Only what `LimitedWriter` defines can be changed: not other sessions, knowledge and tagged
memories, or tags. Hidden sessions are as if they did not exist.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vector_memory.domain import Chunk, NewMemory
from vector_memory.errors import denied
from vector_memory.extras import extra
from vector_memory.settings import MemoryAddress
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import Derived, History, Lease, Memory, Told

if TYPE_CHECKING:
    from vector_memory.storage.teams import TeamTables

# An engine is imported when a memory of it is opened.
# ruff: noqa: PLC0415


def open_storage(
    address: MemoryAddress,
    *,
    dimensions: int,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    read_only: bool = False,
    cut: Callable[[str], Sequence[Chunk]] | None = None,
) -> Storage:
    """Open a memory. `dimensions`: the length of its vectors if it is new. `synchronous`: SQLite's setting, for files.

    `cut`: cuts the documents of a file of the original server.

    Raises DatabaseError if the memory cannot be used, ConfigurationError if its engine is not installed.
    """
    if isinstance(address, Path):
        from vector_memory.storage.sqlite.database import Database, SqliteStorage

        return SqliteStorage(
            Database(address, dimensions=dimensions, synchronous=synchronous, read_only=read_only, cut=cut)
        )
    storage: Storage = extra("postgres").open_schema(address, dimensions=dimensions, read_only=read_only)
    return storage


def open_teams(place: MemoryAddress, dimensions: int) -> "TeamTables":
    """Return the namespaces and tokens in a data folder, or in a database, which is connected to when it is used.

    `dimensions`: the length of vectors in new namespaces of a database.
    """
    if isinstance(place, Path):
        from vector_memory.storage.sqlite.team_tables import FolderTables

        return FolderTables(place)
    tables: TeamTables = extra("postgres").SharedTables(place, dimensions)
    return tables


# ruff: noqa: D102 - the methods are described in storage.base


class LimitedWriter:
    """A writer over a limited connection: it changes only what it has just added, or may see."""

    def __init__(self, writer: Writer) -> None:
        self.whole = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        self.whole.connection.require(new.session_id)
        with self.whole.unlimited():
            return self.whole.add_memory(new, derived, content_hash=content_hash, history=history)

    def defer_vectors(self, memory_id: int, lease: Lease) -> None:
        with self.whole.unlimited():
            self.whole.defer_vectors(memory_id, lease)

    def supersede(self, newer_id: int, older_ids: Iterable[int]) -> None:
        older = self._seen(newer_id, older_ids)
        with self.whole.unlimited():
            self.whole.supersede(newer_id, older)

    def release(self, newer_id: int, older_ids: Iterable[int]) -> None:
        older = self._seen(newer_id, older_ids)
        with self.whole.unlimited():
            self.whole.release(newer_id, older)

    def bypass(self, memory_id: int) -> list[int]:
        seen = self.whole.memories.origins([memory_id])
        with self.whole.unlimited():
            return self.whole.bypass(memory_id) if seen else []

    def delete(self, memory_id: int, *, for_good: bool = True) -> int | None:
        seen = self.whole.memories.origins([memory_id])
        with self.whole.unlimited():
            return self.whole.delete(memory_id, for_good=for_good) if seen else None

    def set_aside(self, memory_id: int, by: str, until: str) -> int | None:
        seen = self.whole.memories.origins([memory_id])
        with self.whole.unlimited():
            return self.whole.set_aside(memory_id, by, until) if seen else None

    def pin(self, memory_id: int, *, pinned: bool) -> None:
        self.whole.memories.get(memory_id)  # or it is not seen
        with self.whole.unlimited():
            self.whole.pin(memory_id, pinned=pinned)

    def amend(self, memory: Memory, words: Any, now: str) -> bool:
        self.whole.memories.get(memory.id)  # or it is not seen
        with self.whole.unlimited():
            return self.whole.amend(memory, words, now)

    def record_access(self, memory_ids: Sequence[int], now: str) -> None:
        with self.whole.unlimited():
            self.whole.record_access(memory_ids, now)

    def record_told(self, told: Told) -> None:
        with self.whole.unlimited():
            self.whole.record_told(told)

    def _seen(self, newer_id: int, older_ids: Iterable[int]) -> list[int]:
        """Return the visible ones of the older memories. Raises NotFoundError if the newer one is hidden."""
        self.whole.memories.get(newer_id)
        return list(self.whole.memories.origins(list(older_ids)))


REACHED = frozenset({"read_only", "version", "require_time_to_write", "confirm", "purge_deleted"})
"""What a storage exposes unchanged: it reveals nothing about hidden sessions."""


class LimitedStorage:
    """A storage in which only some sessions exist."""

    def __init__(self, whole: Storage, sessions: Collection[str]) -> None:
        self._whole, self._sessions = whole, tuple(sessions)

    def __getattr__(self, name: str) -> Any:
        if name in REACHED:
            return getattr(self._whole, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise denied(self._sessions)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with self._whole.read() as reader:
            reader.connection.sessions = self._sessions
            yield reader

    @contextmanager
    def write(self) -> Iterator[LimitedWriter]:
        with self._whole.write() as writer:
            writer.connection.sessions = self._sessions
            yield LimitedWriter(writer)
