"""The outdated blocks of the keyword index of a schema: implements `storage.outdated.OutdatedWords`."""

from collections.abc import Mapping, Sequence

from vector_memory.storage.postgres import keywords
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch_column, fetch_value
from vector_memory.storage.postings import PlacedWords, row_ids

# ruff: noqa: D102 - the methods are described in storage.outdated

ADD_POSTINGS = "insert into keyword_postings (id, postings) select * from unnest(%s::bigint[], %b::bytea[])"
REPLACE_LENGTHS = """
    update keyword_memories m set lengths = n.lengths from unnest(%s::bigint[], %b::bytea[]) n(memory_id, lengths)
    where m.memory_id = n.memory_id
"""


class PostgresOutdatedWords:
    """`storage.outdated.OutdatedWords` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def blocks(self, limit: int) -> list[int]:
        sql = "select block_id from outdated_words order by block_id limit %s"
        return fetch_column(self._connection, sql, (limit,))

    def is_outdated(self, block_id: int) -> bool:
        sql = "select exists (select from outdated_words where block_id = %s)"
        return bool(fetch_value(self._connection, sql, (block_id,)))

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
        later("delete from outdated_words where block_id = %s", (block_id,))
        later("update namespace set epoch = epoch + 1 where not exists (select from outdated_words)")
