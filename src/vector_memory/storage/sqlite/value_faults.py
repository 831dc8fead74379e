"""Finds values that our columns cannot contain: of another type, out of range, or unparsable."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import apsw

from vector_memory.domain import TRAITS
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.json_columns import object_in, texts_in
from vector_memory.storage.sqlite.vectors import vector_dimensions

ValueFaults = dict[str, dict[int, set[str]]]
"""The columns with an unusable value, by table and row."""

TABLES = (
    "session_memories",
    "memory_chunks",
    "memory_passages",
    "token_states",
    "index_keys",
    "embedding_models",
    "keyword_blocks",
    "keyword_memories",
    "keyword_postings",
    "canonical_tags",
    "erasure",
    "revision",
    "sqlite_sequence",
)

STORAGE_CLASSES = {"integer": "'integer'", "real": "'real', 'integer'", "blob": "'blob'", "text": "'text'"}
"""The storage classes allowed in a column, by its declared type."""


def parse_time(text: str) -> datetime:
    """Return the time in a text. Raises ValueError."""
    return datetime.fromisoformat(text)


CHECKED_ELSEWHERE = {"content", "original_content"}
"""The text itself is compared with its checksum."""

PARSERS: dict[tuple[str, str], Callable[[str], object]] = {
    ("session_memories", "tags"): texts_in,
    ("session_memories", "metadata"): object_in,
    ("memory_chunks", "section_hierarchy"): texts_in,
    **{("session_memories", name): parse_time for name in ("created_at", "updated_at", "accessed_at")},
}

CHUNKED = ", ".join(f"'{kind}'" for kind, traits in TRAITS.items() if traits.chunked)
RANGES = {"id": (1, 1 << 52), "session_iter": (0, 999_999_999), "access_count": (0, 1 << 52), "turn": (0, 1 << 52)}
"""The ranges of a memory's numbers. Memories are found and exported by ids above 0."""

WRONG_CHUNKING = f"select id, 'auto_chunk' from session_memories where auto_chunk is not (memory_type in ({CHUNKED}))"
"""The kind of a memory determines whether it is chunked."""

CUT_STATES = "select passage_id, 'states' from token_states where length(states) % ((? + 7) / 8)"
"""A state has one bit for each number of a vector."""

INVALID_SEQUENCES = f"""
    select rowid, 'seq' from sqlite_sequence
    where typeof(name) <> 'text' or typeof(seq) <> 'integer' or seq not between 0 and {1 << 52}
"""
"""The highest ids ever assigned. Near the largest integer, SQLite would report a full database."""


def value_faults(connection: apsw.Connection) -> ValueFaults:
    """Return the unusable values. The file must have the schema of this release."""
    faults: ValueFaults = {}
    for table in TABLES:
        for row_id, column in _faults_of(connection, table):
            faults.setdefault(table, {}).setdefault(row_id, set()).add(column)
    return faults


def _faults_of(connection: apsw.Connection, table: str) -> Iterator[tuple[int, str]]:
    if table == "session_memories":
        yield from connection.execute(WRONG_CHUNKING)
        for column, (least, most) in RANGES.items():
            beyond = f"select id, '{column}' from session_memories where {column} not between {least} and {most}"
            yield from connection.execute(beyond)
    if table == "token_states":
        yield from connection.execute(CUT_STATES, (vector_dimensions(connection),))
    if table == "revision":
        yield from connection.execute("select 1, 'id' where not exists (select 1 from revision)")
    if table == "sqlite_sequence":
        yield from connection.execute(INVALID_SEQUENCES)
        return
    sql = 'select name, lower(type), "notnull" from pragma_table_info(?)'
    columns = [(str(name), str(kind), not_null) for name, kind, not_null in connection.execute(sql, (table,))]
    for name, declared, not_null in columns:
        allowed = STORAGE_CLASSES[declared] + ("" if not_null else ", 'null'")
        yield from connection.execute(f"select rowid, '{name}' from {table} where typeof({name}) not in ({allowed})")
    texts = [name for name, declared, _ in columns if declared == "text" and name not in CHECKED_ELSEWHERE]
    if texts:
        yield from _unreadable_texts(connection, table, texts)


def _unreadable_texts(connection: apsw.Connection, table: str, columns: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the row and column of each text that is not UTF-8 or cannot be parsed."""
    values = ", ".join(f"iif(typeof({name}) = 'text', cast({name} as blob), null)" for name in columns)
    for row_id, *row in connection.execute(f"select rowid, {values} from {table}"):
        for name, value in zip(columns, row, strict=True):
            if value is not None and not _is_readable(value, PARSERS.get((table, name))):
                yield row_id, name


def _is_readable(value: bytes, parse: Callable[[str], Any] | None) -> bool:
    try:
        text = value.decode()
        if parse is not None:
            parse(text)
    except (ValueError, DamagedError):
        return False
    return True
