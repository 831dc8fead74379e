"""The engine as `storage.opening` uses it: opens memories, and prepares databases."""

from collections.abc import Sequence

from vector_memory.extras.postgres import approximate
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.tenant_tables import SharedTables, prepare
from vector_memory.settings import NAMESPACE_PREFIX, SHARED_SCHEMA, DatabaseUrl

__all__ = ["SharedTables", "index_vectors", "open_schema", "prepare_database"]


def open_schema(address: DatabaseUrl, *, dimensions: int, read_only: bool) -> PostgresStorage:
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


def prepare_database(
    address: DatabaseUrl,
    *,
    dimensions: int,
    serving: Sequence[str] = (),
    reading: Sequence[str] = (),
    only: bool = False,
) -> list[str]:
    """Create or upgrade the tables of a memory, of all namespaces, and those that servers share; return the schemas.

    `serving`, `reading`: roles that may use the tables from now on, to write or only to read. `only`: just those of the
    memory of the address. Raises DatabaseError if the role of the address may not, NotFoundError if one of the others
    does not exist.
    """
    roles = dict.fromkeys(reading, False) | dict.fromkeys(serving, True)
    return prepare(address.conninfo(), address.schema, dimensions, roles, SHARED_SCHEMA, NAMESPACE_PREFIX, only=only)


def index_vectors(address: DatabaseUrl, *, drop: bool = False) -> None:
    """Create the index of vectors for searches of large scopes, or drop it. Raises DatabaseError."""
    (approximate.drop if drop else approximate.create)(address.conninfo(), address.schema)
