"""What maintenance does in an SQLite file, in the transaction of a reader or writer."""

import apsw

from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.bulk_read import SqlitePortions
from vector_memory.storage.sqlite.reembedding import SqliteSpareVectors
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.terms import RULES

# ruff: noqa: D102 - the methods are described in storage.maintenance_api


class SqliteUpkeep:
    """`storage.maintenance_api.Upkeep` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @property
    def spare_vectors(self) -> SqliteSpareVectors:
        return SqliteSpareVectors(self._connection)

    @property
    def portions(self) -> SqlitePortions:
        return SqlitePortions(self._connection)

    def rebuild_words(self) -> None:
        keywords.rebuild(self._connection)

    def count_outdated(self) -> int:
        sql = "select count(*) from keyword_memories k join keyword_blocks b on b.id = k.block_id where b.rules < ?"
        return int(fetch_value(self._connection, sql, (RULES,)))
