"""Everything in a file in large portions: whole memories, and blocks of the keyword index."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.storage.maintenance_api import LastIds, PlacedLengths, WholeMemory, WordBlock
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries import chunks, memories
from vector_memory.storage.queries.insert import Passage
from vector_memory.storage.records import CanonicalTag, Memory, StoredChunk, StoredPassage
from vector_memory.storage.sqlite.dialect import as_sqlite
from vector_memory.storage.sqlite.insert import insert_chunk_rows
from vector_memory.storage.sqlite.memory_vectors import IS_INDEXED
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch, fetch_column, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.storage.sqlite.vectors import add_passages, adopt_fingerprint, all_vectors_of

# ruff: noqa: D102 - the methods are described in storage.maintenance_api


class SqlitePortions:
    """`storage.maintenance_api.Portions` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def last_ids(self) -> LastIds:
        sql = "select coalesce((select seq from sqlite_sequence where name = ?), 0)"
        tables = ("session_memories", "memory_chunks")
        return LastIds(*(int(fetch_value(self._connection, sql, (table,))) for table in tables))

    def memories(self, after_id: int, limit: int) -> list[WholeMemory]:
        sql = f"select {as_sqlite(memories.COLUMNS)} from session_memories m where m.id > ? order by m.id limit ?"
        found = fetch(self._connection, memories.memory_from_row, sql, (after_id, limit))
        parts, passages = self._chunks(found), self._passages(found)
        return [WholeMemory(memory, parts[memory.id], passages.get(memory.id)) for memory in found]

    def _chunks(self, memories: Sequence[Memory]) -> dict[int, list[StoredChunk]]:
        sql = f"""
            select {chunks.COLUMNS} from memory_chunks c
            where c.parent_id in (select value from json_each(?)) order by c.parent_id, c.chunk_index
        """
        found = defaultdict[int, list[StoredChunk]](list)
        for chunk in fetch(self._connection, chunks.chunk_from_row, sql, (ids_of(memories),)):
            found[chunk.memory_id].append(chunk)
        return found

    def _passages(self, memories: Sequence[Memory]) -> dict[int, list[StoredPassage]]:
        """Return the passages of the memories that have all their vectors."""
        sql = f"select m.id from session_memories m where m.id in (select value from json_each(?)) and {IS_INDEXED}"
        complete = fetch_column(self._connection, sql, (ids_of(memories),))
        rows: list[Any] = self._connection.execute(
            """
            select p.id, p.memory_id, c.chunk_index, p.start_char, p.end_char, s.states
            from memory_passages p left join memory_chunks c on c.id = p.chunk_id
            left join token_states s on s.passage_id = p.id
            where p.memory_id in (select value from json_each(?)) order by p.id
            """,
            (json.dumps(complete),),
        ).fetchall()
        _, vectors = all_vectors_of(self._connection, [row[0] for row in rows])
        found: dict[int, list[StoredPassage]] = {memory_id: [] for memory_id in complete}
        for (_, memory_id, chunk, start, end, states), vector in zip(rows, vectors, strict=True):
            found[memory_id].append(StoredPassage(chunk, start, end, vector, states))
        return found

    def blocks(self, after_id: int, limit: int) -> list[WordBlock]:
        sql = """
            select id, session_id, units, rules from keyword_blocks
            where id > ? order by id limit ?
        """
        found: list[Any] = self._connection.execute(sql, (after_id, limit)).fetchall()
        return [
            WordBlock(number, session_id, units, rules, *self._words(number))
            for number, session_id, units, rules in found
        ]

    def _words(self, block_id: int) -> tuple[list[PlacedLengths], dict[int, bytes]]:
        sql = "select memory_id, first_unit, lengths from keyword_memories where block_id = ? order by memory_id"
        memories = list(map(PlacedLengths._make, self._connection.execute(sql, (block_id,)).fetchall()))
        first = block_id * BUCKETS
        sql = "select id - ?, postings from keyword_postings where id >= ? and id < ? order by id"
        postings: list[Any] = self._connection.execute(sql, (first, first, first + BUCKETS)).fetchall()
        return memories, dict(postings)

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

    def clear_blocks(self) -> None:
        for table in ("memories", "postings", "blocks"):
            self._connection.execute(f"delete from keyword_{table}")

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


def ids_of(memories: Sequence[Memory]) -> str:
    """Return the ids of memories as JSON."""
    return json.dumps([memory.id for memory in memories])


def raise_last_id(connection: apsw.Connection, table: str, last: int) -> None:
    """Let an `autoincrement` table give only ids above `last`."""
    connection.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (last, table))
    if not connection.changes():
        connection.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (table, last))
