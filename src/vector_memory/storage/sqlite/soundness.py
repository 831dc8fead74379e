"""Checks what SQLite does not check itself: the tables of sqlite-vec, and whether they fit the passages."""

import json
from collections.abc import Sequence

import apsw

from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.sqlite.rows import fetch_column
from vector_memory.storage.sqlite.schema import VEC0_TABLES
from vector_memory.storage.sqlite.transactions import SqliteReader, vector_dimensions
from vector_memory.storage.sqlite.vec0.blocks import are_blocks_consistent, uneven_tables
from vector_memory.storage.sqlite.vec0.signatures import wrong_signatures

MOST = 1 << 52
"""The highest id. Near the largest integer, SQLite would report a full database."""

STRAY = f"""
select "table" from pragma_foreign_key_check
union select 'keyword_postings' from keyword_postings where id / {BUCKETS} not in (select id from keyword_blocks)
union select 'sqlite_sequence' from sqlite_sequence where typeof(seq) <> 'integer' or seq not between 0 and {MOST}
"""

MISFILED = """
select m.id from memory_passages p join session_memories m on m.id = p.memory_id
left join vec_signatures s on s.passage_id = p.id
where s.unit_id is not coalesce(p.chunk_id, p.memory_id)
    or s.kind_key is not (select id from index_keys where name = m.memory_type)
union select memory_id from memory_passages where id in (select value from json_each(?))
"""


def unsound_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables whose rows belong to nothing, are missing, or cannot be used."""
    broken = broken_vectors(connection, VEC0_TABLES)
    return sorted({*fetch_column(connection, STRAY), *uneven_tables(connection), *broken})


def broken_vectors(connection: apsw.Connection, tables: Sequence[str]) -> list[str]:
    """Return those of the tables of sqlite-vec that contradict themselves."""
    dimensions = vector_dimensions(connection)
    return [table for table in tables if not are_blocks_consistent(connection, table, dimensions)]


def misfiled_memories(connection: apsw.Connection) -> list[int]:
    """Return the memories of whose vectors a signature is missing, or has other bits, another unit or another kind."""
    wrong = list(wrong_signatures(connection, SqliteReader(connection).candidates.vectors))
    return fetch_column(connection, MISFILED, (json.dumps(wrong),))
