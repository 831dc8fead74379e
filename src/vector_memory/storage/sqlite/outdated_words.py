"""The outdated blocks of the keyword index of a file: implements `storage.outdated.OutdatedWords`."""

from collections.abc import Mapping, Sequence

import apsw

from vector_memory.storage.postings import PlacedWords, row_ids
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.upgrading import has_outdated_words

# ruff: noqa: D102 - the methods are described in storage.outdated


class SqliteOutdatedWords:
    """`storage.outdated.OutdatedWords` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def blocks(self, limit: int) -> list[int]:
        sql = "select block_id from outdated_words order by block_id limit ?"
        return fetch_column(self._connection, sql, (limit,))

    def is_outdated(self, block_id: int) -> bool:
        return fetch_value(self._connection, "select 1 from outdated_words where block_id = ?", (block_id,)) is not None

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
        self._connection.execute("delete from outdated_words where block_id = ?", (block_id,))
        if not has_outdated_words(self._connection):
            begin_epoch(self._connection)
