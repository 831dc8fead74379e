"""Everything in a schema in large portions: whole memories, and blocks of the keyword index."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.storage.maintenance_api import LastIds, WholeMemory, WordBlock
from vector_memory.storage.postgres.arrays import as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.insert import INSERT_CHUNKS, chunk_values
from vector_memory.storage.postgres.rows import fetch_value
from vector_memory.storage.postgres.transactions import PostgresConnection, PostgresWriter
from vector_memory.storage.postgres.vectors import adopt_fingerprint
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries.memories import IS_INDEXED
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import CanonicalTag, StoredPassage

# ruff: noqa: D102 - the methods are described in storage.queries.portions

# A memory without a passage that has all its vectors has one row without a passage.
PASSAGES = f"""
    select m.id, c.chunk_index, p.start_char, p.end_char, p.states, p.embedding
    from session_memories m left join memory_passages p on p.memory_id = m.id
    left join memory_chunks c on c.id = p.chunk_id
    where m.id = any(%s::bigint[]) and {IS_INDEXED} order by p.id
"""

# One array has the numbers of all vectors, as in `vectors`.
ADD_PASSAGES = """
    insert into memory_passages (
        id, memory_id, chunk_id, start_char, end_char, memory_type, agent_id, session_id, session_iter, task_code,
        embedding, states
    )
    select %(first)s + p.number - 1, m.id, c.id, p.start_char, p.end_char, m.memory_type, m.agent_id, m.session_id,
        m.session_iter, m.task_code,
        (%(vectors)s::real[])[(p.number - 1) * %(length)s + 1 : p.number * %(length)s]::vector, p.states
    from unnest(
        %(memories)s::bigint[], %(chunks)s::integer[], %(starts)s::integer[], %(ends)s::integer[], %(states)s::bytea[]
    ) with ordinality p(memory_id, chunk_index, start_char, end_char, states, number)
    join session_memories m on m.id = p.memory_id
    left join memory_chunks c on c.parent_id = p.memory_id and c.chunk_index = p.chunk_index
"""

PASSAGES_AT_ONCE = 2_000
"""Passages sent in one statement, 12 MB."""

ADD_BLOCKS = """
    insert into keyword_blocks (id, session_id, units, rules) overriding system value
    select * from unnest(%s::bigint[], %s::text[], %s::integer[], %s::integer[])
"""
ADD_PLACED = """
    insert into keyword_memories (block_id, memory_id, first_unit, lengths)
    select * from unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::bytea[])
"""
ADD_POSTINGS = "insert into keyword_postings (id, postings) select * from unnest(%s::bigint[], %s::bytea[])"

ADD_TAGS = """
    insert into canonical_tags (tag, frequency, created_at)
    select tag, frequency, created_at from unnest(%s::text[], %s::integer[], %s::text[])
        with ordinality t(tag, frequency, created_at, number) order by number
"""

# A role that may not set a sequence may still take numbers from it.
NUMBER = "nextval(pg_get_serial_sequence('keyword_blocks', 'id'))"


# Until the server does so by itself, plans would be those of empty tables.
ANALYZE = "analyze session_memories, memory_chunks, memory_passages, keyword_memories, keyword_blocks, keyword_postings"


class PostgresPortions(Portions):
    """Portions of a schema."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(PostgresConnection(connection))
        self._connection = connection

    def last_ids(self) -> LastIds:
        state = self._connection.state
        return LastIds(state.last_memory_id, state.last_chunk_id)

    def passages(self, memory_ids: list[int]) -> dict[int, list[StoredPassage]]:
        rows = self._connection.execute(PASSAGES, (memory_ids,), binary=True).fetchall()
        found = {row[0]: list[StoredPassage]() for row in rows}
        present = [row for row in rows if row[-1] is not None]
        vectors = as_vectors([row[-1] for row in present], self._connection.state.dimensions)
        for (memory_id, chunk, start, end, states, _), vector in zip(present, vectors, strict=True):
            found[memory_id].append(StoredPassage(chunk, start, end, vector, states))
        return found

    def add_memories(self, memories: Sequence[WholeMemory], fingerprint: Fingerprint | None) -> None:
        connection = self._connection
        model_id = None if fingerprint is None else adopt_fingerprint(connection, fingerprint)
        for whole in memories:
            PostgresWriter(connection).insert_row(whole.memory, None if whole.passages is None else model_id)
        rows = [
            (part.id, part.memory_id, *chunk_values(part.chunk), part.enriched)
            for whole in memories
            for part in whole.chunks
        ]
        if rows:
            connection.later(INSERT_CHUNKS, columns(rows, len(rows[0])))
        self._add_passages([(whole.memory.id, passage) for whole in memories for passage in whole.passages or ()])
        last_chunk_id = max((part.id for whole in memories for part in whole.chunks), default=0)
        self._raise_last_ids(LastIds(max(whole.memory.id for whole in memories), last_chunk_id))

    def _add_passages(self, passages: Sequence[tuple[int, StoredPassage]]) -> None:
        for start in range(0, len(passages), PASSAGES_AT_ONCE):
            added = passages[start : start + PASSAGES_AT_ONCE]
            vectors = np.stack([passage.vector for _, passage in added])
            parameters = {
                "first": self._connection.state.next_ids("passage", len(added))[0],
                "memories": [memory_id for memory_id, _ in added],
                "chunks": [passage.chunk for _, passage in added],
                "starts": [passage.start for _, passage in added],
                "ends": [passage.end for _, passage in added],
                "states": [passage.states for _, passage in added],
                "vectors": vectors,
                "length": vectors.shape[1],
            }
            self._connection.execute(ADD_PASSAGES, parameters)

    def add_blocks(self, blocks: Sequence[WordBlock]) -> None:
        later = self._connection.later
        later(ADD_BLOCKS, columns([block[:4] for block in blocks], 4))
        placed = [(block.id, *memory) for block in blocks for memory in block.memories]
        later(ADD_PLACED, columns(placed, 4))
        postings = [(block.id * BUCKETS + bucket, row) for block in blocks for bucket, row in block.postings.items()]
        later(ADD_POSTINGS, columns(postings, 2))

    def finish(self, last_ids: LastIds, tags: Sequence[CanonicalTag]) -> None:
        connection = self._connection
        connection.execute("delete from canonical_tags")
        connection.execute(ADD_TAGS, columns([(tag.tag, tag.frequency, tag.created_at) for tag in tags], 3))
        last_block = fetch_value(connection, "select max(id) from keyword_blocks")
        next_block = fetch_value(connection, f"select {NUMBER}")
        connection.execute(f"select max({NUMBER}) from generate_series(%s + 1, %s)", (next_block, last_block))
        connection.execute(ANALYZE)
        connection.execute("update namespace set epoch = epoch + 1")
        self._raise_last_ids(last_ids)

    def _raise_last_ids(self, last: LastIds) -> None:
        state = self._connection.state
        state.last_memory_id = max(state.last_memory_id, last.memory)
        state.last_chunk_id = max(state.last_chunk_id, last.chunk)
        state.has_new_ids = True


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the columns of rows."""
    return [[row[place] for row in rows] for place in range(width)]
