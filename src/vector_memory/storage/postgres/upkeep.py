"""What maintenance does in a PostgreSQL schema, in the transaction of a reader or writer."""

from typing import NoReturn

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres.connection import Connection

# ruff: noqa: D102 - the methods are described in storage.upkeep


class PostgresUpkeep:
    """`storage.upkeep.Upkeep` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def spare_vectors(self) -> NoReturn:
        raise DatabaseError("Vectors cannot be recomputed in PostgreSQL by this release.")

    @property
    def portions(self) -> NoReturn:
        raise DatabaseError("A memory cannot be copied to or from PostgreSQL by this release.")
