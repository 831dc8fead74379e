"""Everything in a file in large portions: whole memories, and blocks of the keyword index."""

import json
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.maintenance_api import LastIds, WholeMemory, WordBlock
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries.insert import Passage
from vector_memory.storage.queries.memories import IS_INDEXED
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import CanonicalTag, StoredPassage
from vector_memory.storage.sqlite.insert import insert_chunk_rows
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteConnection, SqliteWriter
from vector_memory.storage.sqlite.vectors import add_passages, adopt_fingerprint, all_vectors_of

# ruff: noqa: D102 - the methods are described in storage.queries.portions


class SqlitePortions(Portions):
    """Portions of a file."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(SqliteConnection(connection))
        self._connection = connection

    def last_ids(self) -> LastIds:
        sql = "select coalesce((select seq from sqlite_sequence where name = ?), 0)"
        tables = ("session_memories", "memory_chunks")
        return LastIds(*(int(fetch_value(self._connection, sql, (table,))) for table in tables))

    def passages(self, memory_ids: list[int]) -> dict[int, list[StoredPassage]]:
        sql = f"select m.id from session_memories m where m.id in (select value from json_each(?)) and {IS_INDEXED}"
        complete = fetch_column(self._connection, sql, (json.dumps(memory_ids),))
        rows: list[Any] = self._connection.execute(
            """
            select p.id, p.memory_id, c.chunk_index, p.start_char, p.end_char, s.states
            from memory_passages p left join memory_chunks c on c.id = p.chunk_id
            left join token_states s on s.passage_id = p.id
            where p.memory_id in (select value from json_each(?)) order by p.id
            """,
            (json.dumps(complete),),
        ).fetchall()
        found: dict[int, list[StoredPassage]] = {memory_id: [] for memory_id in complete}
        if not rows:
            return found
        ids, vectors = all_vectors_of(self._connection, [row[0] for row in rows])
        if len(ids) < len(rows):
            raise DamagedError("A passage has no vector: run `vector-memory doctor --fix`.")
        for (_, memory_id, chunk, start, end, states), vector in zip(rows, vectors, strict=True):
            found[memory_id].append(StoredPassage(chunk, start, end, vector, states))
        return found

    def add_memories(self, memories: Sequence[WholeMemory], fingerprint: Fingerprint | None) -> None:
        connection = self._connection
        model_id = None if fingerprint is None else adopt_fingerprint(connection, fingerprint)
        for whole in memories:
            memory = whole.memory
            SqliteWriter(connection).insert_row(memory, None if whole.passages is None else model_id)
            chunk_ids = [chunk.id for chunk in whole.chunks]
            if whole.chunks:
                parts = [chunk.chunk for chunk in whole.chunks]
                insert_chunk_rows(connection, memory, parts, chunk_ids, enriched=whole.chunks[0].enriched)
            if whole.passages:
                passages = [
                    Passage(None if place.chunk is None else chunk_ids[place.chunk], place.start, place.end)
                    for place in whole.passages
                ]
                vectors = np.stack([passage.vector for passage in whole.passages])
                add_passages(connection, memory, passages, vectors, [passage.states for passage in whole.passages])

    def add_blocks(self, blocks: Sequence[WordBlock]) -> None:
        execute = self._connection.executemany
        execute(
            "insert into keyword_blocks (id, session_id, units, rules) values (?, ?, ?, ?)",
            [block[:4] for block in blocks],
        )
        execute(
            "insert into keyword_memories (memory_id, block_id, first_unit, lengths) values (?, ?, ?, ?)",
            [(memory_id, block.id, first, lengths) for block in blocks for memory_id, first, lengths in block.memories],
        )
        execute(
            "insert into keyword_postings (id, postings) values (?, ?)",
            [
                (block.id * BUCKETS + bucket, postings)
                for block in blocks
                for bucket, postings in block.postings.items()
            ],
        )

    def finish(self, last_ids: LastIds, tags: Sequence[CanonicalTag]) -> None:
        connection = self._connection
        connection.execute("delete from canonical_tags")
        connection.executemany(
            "insert into canonical_tags (tag, frequency, created_at) values (?, ?, ?)",
            [(tag.tag, tag.frequency, tag.created_at) for tag in tags],
        )
        for table, last in zip(("session_memories", "memory_chunks"), last_ids, strict=True):
            raise_last_id(connection, table, last)
        begin_epoch(connection)


def raise_last_id(connection: apsw.Connection, table: str, last: int) -> None:
    """Let an `autoincrement` table give only ids above `last`."""
    connection.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (last, table))
    if not connection.changes():
        connection.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (table, last))
