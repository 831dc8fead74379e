"""The engine as `storage.opening` uses it: opens memories, and prepares databases."""

from vector_memory.extras.postgres import approximate
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.tenant_tables import SharedTables, prepare
from vector_memory.settings import DatabaseUrl

__all__ = ["SharedTables", "index_vectors", "open_storage", "prepare"]


def open_storage(address: DatabaseUrl, *, dimensions: int, read_only: bool) -> PostgresStorage:
    """Open a memory. Raises DatabaseError if it cannot be used."""
    return PostgresStorage(
        PostgresDatabase(
            address.conninfo(),
            schema=address.schema,
            dimensions=dimensions,
            read_only=read_only,
            connections=address.connections,
            standbys=address.standbys(),
        )
    )


def index_vectors(address: DatabaseUrl, *, drop: bool) -> None:
    """Create the index of vectors for searches of large scopes, or drop it. Raises DatabaseError."""
    (approximate.drop if drop else approximate.create)(address.conninfo(), address.schema)
