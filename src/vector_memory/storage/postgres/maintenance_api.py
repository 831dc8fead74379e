"""What maintenance does in a PostgreSQL schema, in the transaction of a reader or writer."""

from vector_memory.storage.postgres import keywords
from vector_memory.storage.postgres.bulk_read import PostgresPortions
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.reembedding import PostgresSpareVectors
from vector_memory.storage.postgres.rows import fetch_value
from vector_memory.storage.terms import RULES

# ruff: noqa: D102 - the methods are described in storage.maintenance_api


class PostgresUpkeep:
    """`storage.maintenance_api.Upkeep` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def spare_vectors(self) -> PostgresSpareVectors:
        return PostgresSpareVectors(self._connection)

    @property
    def portions(self) -> PostgresPortions:
        return PostgresPortions(self._connection)

    def rebuild_words(self) -> None:
        keywords.rebuild(self._connection)

    def count_outdated(self) -> int:
        sql = "select count(*) from keyword_memories k join keyword_blocks b on b.id = k.block_id where b.rules < %s"
        return int(fetch_value(self._connection, sql, (RULES,)))
