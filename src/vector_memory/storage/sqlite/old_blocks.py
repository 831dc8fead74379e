"""The blocks of the keyword index of a file by earlier rules: implements `storage.reindexing.OldBlocks`."""

from collections.abc import Mapping, Sequence

import apsw

from vector_memory.storage.postings import PlacedWords, row_ids
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.upgrading import has_old_words
from vector_memory.storage.terms import RULES

# ruff: noqa: D102 - the methods are described in storage.reindexing


class SqliteOldBlocks:
    """`storage.reindexing.OldBlocks` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def blocks(self, limit: int) -> list[int]:
        return fetch_column(
            self._connection, "select id from keyword_blocks where rules < ? order by id limit ?", (RULES, limit)
        )

    def is_old(self, block_id: int) -> bool:
        sql = "select 1 from keyword_blocks where id = ? and rules < ?"
        return fetch_value(self._connection, sql, (block_id, RULES)) is not None

    def memories_in(self, block_id: int) -> list[PlacedWords]:
        return keywords.placed_in(self._connection, block_id)

    def texts_of(self, memory_id: int) -> list[str]:
        return keywords.texts_of(self._connection, memory_id)

    def replace(self, block_id: int, memories: Sequence[PlacedWords], rows: Mapping[int, bytes]) -> None:
        self._connection.execute("delete from keyword_postings where id between ? and ?", row_ids(block_id))
        self._connection.executemany("insert into keyword_postings values (?, ?)", sorted(rows.items()))
        self._connection.executemany(
            "update keyword_memories set lengths = ? where memory_id = ?",
            [(memory.lengths, memory.memory_id) for memory in memories],
        )
        self.keep(block_id)

    def keep(self, block_id: int) -> None:
        self._connection.execute("update keyword_blocks set rules = ? where id = ?", (RULES, block_id))
        if not has_old_words(self._connection):
            begin_epoch(self._connection)
