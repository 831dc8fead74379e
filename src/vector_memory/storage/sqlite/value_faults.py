"""Values that no column of ours can hold, row by row: of another type, beyond their range, or not in their form."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import apsw

from vector_memory.domain import TRAITS
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import object_in, texts_in

ValueFaults = dict[str, dict[int, set[str]]]
"""The columns with an unusable value, by table and row."""

TABLES = (
    "session_memories",
    "memory_chunks",
    "memory_passages",
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

NUMBERS = {"integer": "'integer'", "real": "'real', 'integer'", "blob": "'blob'", "text": "'text'"}
"""The types that columns of a declared type may hold."""


def moment_in(text: str) -> datetime:
    """Return the time that a text says. Raises ValueError."""
    return datetime.fromisoformat(text)


READ_ELSEWHERE = {"content", "original_content"}
"""The text itself is compared with its checksum."""

FORMS: dict[tuple[str, str], Callable[[str], object]] = {
    ("session_memories", "tags"): texts_in,
    ("session_memories", "metadata"): object_in,
    ("memory_chunks", "section_hierarchy"): texts_in,
    **{("session_memories", name): moment_in for name in ("created_at", "updated_at", "accessed_at")},
}

CHUNKED = ", ".join(f"'{kind}'" for kind, traits in TRAITS.items() if traits.chunked)
RANGES = {"id": (1, 1 << 52), "session_iter": (0, 999_999_999), "access_count": (0, 1 << 52)}
"""What a memory's numbers can be: it is found by an id above 0, and exported with the others."""

NOT_CHUNKED = f"select id, 'auto_chunk' from session_memories where auto_chunk is not (memory_type in ({CHUNKED}))"
"""Whether a memory is chunked is a matter of its kind."""

SEQUENCES = f"""
    select rowid, 'seq' from sqlite_sequence
    where typeof(name) <> 'text' or typeof(seq) <> 'integer' or seq not between 0 and {1 << 52}
"""
"""The highest ids ever given. Near the highest number there is, SQLite would say that the database is full."""


def value_faults(connection: apsw.Connection) -> ValueFaults:
    """Return which values are unusable. The schema has to be that of this release."""
    faults: ValueFaults = {}
    for table in TABLES:
        for row_id, column in _faults_of(connection, table):
            faults.setdefault(table, {}).setdefault(row_id, set()).add(column)
    return faults


def _faults_of(connection: apsw.Connection, table: str) -> Iterator[tuple[int, str]]:
    if table == "session_memories":
        yield from connection.execute(NOT_CHUNKED)
        for column, (least, most) in RANGES.items():
            beyond = f"select id, '{column}' from session_memories where {column} not between {least} and {most}"
            yield from connection.execute(beyond)
    if table == "revision":
        yield from connection.execute("select 1, 'id' where not exists (select 1 from revision)")
    if table == "sqlite_sequence":
        yield from connection.execute(SEQUENCES)
        return
    sql = 'select name, lower(type), "notnull" from pragma_table_info(?)'
    columns = [(str(name), str(kind), not_null) for name, kind, not_null in connection.execute(sql, (table,))]
    for name, declared, not_null in columns:
        allowed = NUMBERS[declared] + ("" if not_null else ", 'null'")
        yield from connection.execute(f"select rowid, '{name}' from {table} where typeof({name}) not in ({allowed})")
    texts = [name for name, declared, _ in columns if declared == "text" and name not in READ_ELSEWHERE]
    if texts:
        yield from _unreadable_texts(connection, table, texts)


def _unreadable_texts(connection: apsw.Connection, table: str, columns: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the row and column of each text that is no UTF-8, or not in its form."""
    values = ", ".join(f"iif(typeof({name}) = 'text', cast({name} as blob), null)" for name in columns)
    for row_id, *row in connection.execute(f"select rowid, {values} from {table}"):
        for name, value in zip(columns, row, strict=True):
            if value is not None and not _is_readable(value, FORMS.get((table, name))):
                yield row_id, name


def _is_readable(value: bytes, parse: Callable[[str], Any] | None) -> bool:
    try:
        text = value.decode()
        if parse is not None:
            parse(text)
    except (ValueError, DamagedError):
        return False
    return True
