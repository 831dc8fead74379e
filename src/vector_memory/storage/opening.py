"""Opens a memory with the engine that its address names. No other module knows more than one engine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vector_memory.domain import Chunk
from vector_memory.extras import extra
from vector_memory.settings import MemoryAddress
from vector_memory.storage.base import Storage

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
