"""The blocks of the keyword index of a schema by earlier rules: implements `storage.reindexing.OldBlocks`."""

from collections.abc import Mapping, Sequence

from vector_memory.storage.postgres import keywords
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch_column, fetch_value
from vector_memory.storage.postings import PlacedWords, row_ids
from vector_memory.storage.terms import RULES

# ruff: noqa: D102 - the methods are described in storage.reindexing

ADD_POSTINGS = "insert into keyword_postings (id, postings) select * from unnest(%s::bigint[], %b::bytea[])"
REPLACE_LENGTHS = """
    update keyword_memories m set lengths = n.lengths from unnest(%s::bigint[], %b::bytea[]) n(memory_id, lengths)
    where m.memory_id = n.memory_id
"""


class PostgresOldBlocks:
    """`storage.reindexing.OldBlocks` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def blocks(self, limit: int) -> list[int]:
        sql = "select id from keyword_blocks where rules < %s order by id limit %s"
        return fetch_column(self._connection, sql, (RULES, limit))

    def is_old(self, block_id: int) -> bool:
        sql = "select exists (select 1 from keyword_blocks where id = %s and rules < %s)"
        return bool(fetch_value(self._connection, sql, (block_id, RULES)))

    def memories_in(self, block_id: int) -> list[PlacedWords]:
        return keywords.placed_in(self._connection, block_id)

    def texts_of(self, memory_id: int) -> list[str]:
        return keywords.texts_of(self._connection, memory_id)

    def replace(self, block_id: int, memories: Sequence[PlacedWords], rows: Mapping[int, bytes]) -> None:
        later = self._connection.later
        later("delete from keyword_postings where id between %s and %s", row_ids(block_id))
        later(ADD_POSTINGS, (list(rows), list(rows.values())))
        later(REPLACE_LENGTHS, ([memory.memory_id for memory in memories], [memory.lengths for memory in memories]))
        self.keep(block_id)

    def keep(self, block_id: int) -> None:
        later = self._connection.later
        later("update keyword_blocks set rules = %s where id = %s", (RULES, block_id))
        later(
            "update namespace set epoch = epoch + 1 where not exists (select 1 from keyword_blocks where rules < %s)",
            (RULES,),
        )
