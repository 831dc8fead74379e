"""Writes passages and their vectors: `memory_passages`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.queries.passages import Passage
from vector_memory.storage.records import Memory

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    from vector_memory.storage.scoring import Vectors

# One array has the numbers of all vectors: arrays of vectors would need the number of their type in this database.
ADD = """
    insert into {table} (
        id, memory_id, chunk_id, start_char, end_char, memory_type, agent_id, session_id, session_iter, task_code,
        embedding, states
    )
    select %(first)s + p.number - 1, m.id, p.chunk_id, p.start_char, p.end_char, m.memory_type, m.agent_id,
        m.session_id, m.session_iter, m.task_code,
        (%(vectors)s::real[])[(p.number - 1) * %(length)s + 1 : p.number * %(length)s]::vector, p.states
    from unnest(%(chunks)s::bigint[], %(starts)s::integer[], %(ends)s::integer[], %(states)s::bytea[])
        with ordinality p(chunk_id, start_char, end_char, states, number)
    join session_memories m on m.id = %(memory)s
"""


def add_passages(
    connection: Connection,
    memory: Memory,
    passages: Sequence[Passage],
    vectors: "Vectors",
    states: Sequence[bytes | None] | None = None,
    *,
    table: str = "memory_passages",
) -> None:
    """Add a stored memory's passages, their vectors, and the states of their tokens if they are kept."""
    if not passages:
        return
    first, *_ = connection.state.next_ids("passage", len(passages))
    chunks, starts, ends = (list(column) for column in zip(*passages, strict=True))
    connection.later(
        ADD.format(table=table),
        {
            "memory": memory.id,
            "first": first,
            "chunks": chunks,
            "starts": starts,
            "ends": ends,
            "states": states or [None] * len(passages),
            "vectors": vectors,
            "length": vectors.shape[1],
        },
    )
