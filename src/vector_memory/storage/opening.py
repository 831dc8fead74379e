"""Opens a memory with the engine that its address names. No other module knows more than one engine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from vector_memory.domain import Chunk
from vector_memory.errors import ConfigurationError
from vector_memory.settings import MemoryAddress
from vector_memory.storage.base import Storage

MISSING_DRIVER = 'A memory in PostgreSQL needs a driver: run `pip install "vector-memory[postgres]"`.'


def open_storage(
    address: MemoryAddress,
    *,
    dimensions: int,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    read_only: bool = False,
    cut: Callable[[str], Sequence[Chunk]] | None = None,
) -> Storage:
    """Open a memory. `dimensions`: the length of its vectors if it is new. `synchronous`: of a file.

    `cut`: cuts documents that an upgrade has left without chunks.

    Raises DatabaseError if the memory cannot be used, ConfigurationError if its engine is not installed.
    """
    if isinstance(address, Path):
        from vector_memory.storage.sqlite.database import Database
        from vector_memory.storage.sqlite.storage import SqliteStorage

        return SqliteStorage(
            Database(address, dimensions=dimensions, synchronous=synchronous, read_only=read_only, cut=cut)
        )
    require_driver()
    from vector_memory.storage.postgres.database import PostgresDatabase
    from vector_memory.storage.postgres.storage import PostgresStorage

    return PostgresStorage(
        PostgresDatabase(address.conninfo(), schema=address.schema, dimensions=dimensions, read_only=read_only)
    )


def require_driver() -> None:
    """Raise ConfigurationError, which says what to install, if the driver for PostgreSQL cannot be used."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise ConfigurationError(MISSING_DRIVER) from None
