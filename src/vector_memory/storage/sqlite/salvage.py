"""Repairs a file by copying: every readable memory goes into a new file, and derived data is rebuilt.

Chunks and vectors that fit a memory's text are copied with it. A memory that cannot be read as a whole is read column
by column: as long as there is a text, the rest may be missing.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from vector_memory.domain import Fingerprint, utc_now
from vector_memory.domain.fields import MEMORY_COLUMNS, FieldType, MemoryField
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.storage.base import WholeMemory
from vector_memory.storage.connection import UNLIMITED
from vector_memory.storage.damaged import object_in, texts_in
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries.passages import FIRST_MODEL
from vector_memory.storage.records import LastIds, Memory
from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.connecting import load_vector_search
from vector_memory.storage.sqlite.legacy import CHUNKED
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value, translated_errors
from vector_memory.storage.sqlite.schema import TEXT_TABLES, TYPES, ModelTables, tables_of
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter, vector_dimensions
from vector_memory.storage.sqlite.vec0 import are_blocks_consistent, uneven_tables, wrong_signatures

T = TypeVar("T")

TEXTS, CHUNKS, *OTHERS = re.findall(r"create table (\w+)", TEXT_TABLES)
"""The tables of memories and chunks, and all others that cannot be derived."""

NOTHING = (
    "No memory in the file can be read, and nothing was changed. Stop all servers, then restore the latest backup: "
    "`vector-memory restore SOURCE --overwrite`."
)

MEMORIES_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The number of copied memories, and the ids of those that cannot be read."""

    copied: int = 0
    lost: list[int] = field(default_factory=list)


def attempt(read: Callable[[], T]) -> T | None:
    """Return what can be read, or None."""
    try:
        with translated_errors():
            return read()
    except VectorMemoryError:
        return None


def readable_rows(connection: apsw.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query up to the first that cannot be read."""
    with contextlib.suppress(apsw.Error):
        yield from connection.execute(query)


def known_ids(connection: apsw.Connection) -> list[int]:
    """Return the ids of all memories that the table, read from both ends, or one of its indexes names."""
    indexes = fetch_column(connection, "select name from sqlite_schema where type = 'index' and tbl_name = ?", (TEXTS,))
    sources = ["not indexed order by id", "not indexed order by id desc", *(f'indexed by "{name}"' for name in indexes)]
    found = {
        number for source in sources for (number,) in readable_rows(connection, f"select id from {TEXTS} {source}")
    }
    return sorted(number for number in found if isinstance(number, int))


def readable_memory(connection: apsw.Connection, memory_id: int) -> Memory | None:
    """Return a memory with what can be read of its columns; None: there is no text."""

    def value(column: str, wanted: type = str, default: Any = None) -> Any:
        # SQLite does not find a row that is not in order; a scan does.
        for condition in ("id = ?", "+id = ?"):
            bytes_of_text = f"iif(typeof({column}) = 'text', cast({column} as blob), {column})"
            sql = f"select {bytes_of_text} from {TEXTS} m where {condition}"
            found = attempt(lambda: fetch_value(connection, sql, (memory_id,)))  # noqa: B023 - is called at once
            if found is not None:
                found = found.decode(errors="replace") if isinstance(found, bytes) else found
                return found if isinstance(found, wanted) else default
        return default

    content = value("content")
    if content is None:
        return None
    found = {
        column.name: value(column.name, str if TYPES[column.values] == "text" else int, default_of(column))
        for column in MEMORY_COLUMNS
        if column.name not in ("content", "auto_chunk", "chunk_count")
    }
    found["tags"] = attempt(lambda: texts_in(found["tags"])) or []
    for name in ("metadata", "came_from"):
        found[name] = attempt(partial(object_in, found[name])) or {}
    chunked = found["memory_type"] in CHUNKED
    return Memory(id=memory_id, content=content, chunked=chunked, chunk_count=0, **found)


def default_of(column: MemoryField) -> Any:
    """Return the value of a column of memories that cannot be read."""
    if column.default is None and column.required:
        return utc_now() if column.values is FieldType.TIME else ""
    return column.default


Judge = Callable[[WholeMemory], WholeMemory | None]
"""Returns a memory with the derived data that fits its text; None: none does."""


def salvage(source: apsw.Connection, target: Path, dimensions: int, judge: Judge) -> Salvaged:
    """Copy what can be read to a new file. Raises DatabaseError if that is nothing.

    `dimensions`: the length of the vectors, if the file does not say it.
    """
    is_there = TEXTS in migrations.names_of_tables(source)  # a view in its place can run forever
    ids = known_ids(source) if is_there else []
    has_derived = not migrations.altered_in(source)
    lengths = attempt(lambda: SqliteReader(source).vectors.dimensions) if has_derived else None
    with contextlib.closing(apsw.Connection(str(target))) as connection:
        # An unfinished draft is discarded.
        connection.pragma("journal_mode", "memory")
        connection.pragma("synchronous", "off")
        connection.pragma("foreign_keys", 1)
        load_vector_search(connection)
        migrations.migrate(connection, lengths or dimensions)
        connection.execute("begin")
        salvaged = Copier(source, connection, judge, has_derived=has_derived).copy(ids)
        is_empty = is_there and attempt(lambda: fetch_value(source, f"select count(id) from {TEXTS}")) == 0
        if not salvaged.copied and not is_empty:
            raise DatabaseError(NOTHING)
        connection.execute("commit")
    return salvaged


class Copier:
    """Copies memories from a damaged file to a new one, with their derived data where it is right."""

    def __init__(self, source: apsw.Connection, target: apsw.Connection, judge: Judge, *, has_derived: bool) -> None:
        """`has_derived`: the tables of what is derived are those of this release."""
        self._source, self._target = source, target
        self._reader, self._writer = SqliteReader(source), SqliteWriter(target)
        self._judge = judge
        self._has_derived = has_derived
        self._has_vectors = has_derived and attempt(self._broken_vectors) == []
        self._fingerprint: Fingerprint | None = attempt(self._reader.vectors.fingerprint) if has_derived else None

    def _broken_vectors(self) -> list[str]:
        current = self._reader.vectors.current
        tables = tables_of(FIRST_MODEL if current is None else current.id)
        return [table for table in broken_vectors(self._source, tables) if table != tables.signatures]

    def copy(self, ids: Sequence[int]) -> Salvaged:
        """Copy all that can be read, and index its words."""
        lost: list[int] = []
        for start in range(0, len(ids), MEMORIES_AT_ONCE):
            portion = ids[start : start + MEMORIES_AT_ONCE]
            if not self._put(portion, self._whole):
                ways = self._whole, self._bare
                lost += [number for number in portion if not any(self._put([number], way) for way in ways)]
        self._copy_rows()
        links = attempt(lambda: self._reader.links.after((0, 0), UNLIMITED)) if self._has_vectors else None
        copied = set(ids) - set(lost)
        self._writer.add_links([link for link in links or () if {link.older_id, link.newer_id} <= copied])
        self._writer.keywords.fill()
        self._writer.refresh(self._writer.lifecycle.wrong())
        given = attempt(self._reader.last_ids) or LastIds(0, 0)
        self._writer.raise_last_ids(LastIds(*(number if 0 < number <= MOST else 0 for number in given)))
        released = fetch_value(self._target, "select max(given_at) from memory_lifecycle")
        self._writer.raise_last_ids(LastIds(released or 0, 0))
        return Salvaged(len(copied), lost)

    def _copy_rows(self) -> None:
        """Copy the rows of the other tables that cannot be derived, but for those of memories that are lost."""
        for table in set(OTHERS) & migrations.names_of_tables(self._source):
            columns = fetch_column(self._target, "select name from pragma_table_info(?)", (table,))
            sql = f"insert or replace into {table} values ({', '.join('?' * len(columns))})"
            for order in ("asc", "desc"):
                for row in readable_rows(self._source, f"select {', '.join(columns)} from {table} order by 1 {order}"):
                    with contextlib.suppress(apsw.Error):
                        self._target.execute(sql, row)
        self._target.execute("delete from supersessions where older_id >= newer_id")
        self._target.execute(
            f"update memory_lifecycle set given_at = null where given_at not between memory_id and {MOST}"
        )

    def _whole(self, ids: Sequence[int]) -> list[WholeMemory]:
        found = self._reader.upkeep.portions.whole(ids) if self._has_derived else []
        kept = [self._judge(whole if self._has_vectors else replace(whole, passages=None)) for whole in found]
        right = [whole for whole in kept if whole is not None]
        return right if len(right) == len(ids) else []

    def _bare(self, ids: Sequence[int]) -> list[WholeMemory]:
        memory = readable_memory(self._source, *ids)
        return [] if memory is None else [WholeMemory(memory, [], None)]

    def _put(self, ids: Sequence[int], read: Callable[[Sequence[int]], list[WholeMemory]]) -> bool:
        """Add memories to the new file; False: they cannot be read like this, or do not fit."""
        memories = attempt(lambda: read(ids))
        if not memories:
            return False
        with_vectors = any(whole.passages is not None for whole in memories)
        try:
            with translated_errors(), self._target:
                self._writer.upkeep.portions.add_memories(memories, self._fingerprint if with_vectors else None)
        except VectorMemoryError:
            return False
        return True


# Checks what SQLite does not check itself: the tables of sqlite-vec, and whether they fit the passages.

MOST = 1 << 52
"""The highest id. Near the largest integer, SQLite would report a full database."""

LAST_ID = f"coalesce((select seq from sqlite_sequence where name = '{TEXTS}'), 0)"
STRAY = f"""
select "table" from pragma_foreign_key_check
union select 'keyword_postings' from keyword_postings where id / {BUCKETS} not in (select id from keyword_blocks)
union select 'sqlite_sequence' from sqlite_sequence where typeof(seq) <> 'integer' or seq not between 0 and {MOST}
union select 'memory_lifecycle' from memory_lifecycle where given_at < memory_id or given_at > {LAST_ID}
union select 'sqlite_sequence' where (select max(id) from {TEXTS}) > {LAST_ID}
"""

MISFILED = """
select m.id from memory_passages p join session_memories m on m.id = p.memory_id
left join {signatures} s on s.passage_id = p.id
where p.model_id = {model_id} and (
    s.unit_id is not coalesce(p.chunk_id, p.memory_id)
    or s.kind_key is not (select id from index_keys where name = m.memory_type)
)
union select memory_id from memory_passages where id in (select value from json_each(?))
"""


def unsound_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables whose rows belong to nothing, are missing, or cannot be used."""
    models = [model.id for model in SqliteReader(connection).vectors.models()] or [FIRST_MODEL]
    wrong = [table for model_id in models for table in uneven_tables(connection, model_id)]
    broken = [table for model_id in models for table in broken_vectors(connection, tables_of(model_id))]
    return sorted({*fetch_column(connection, STRAY), *wrong, *broken})


def broken_vectors(connection: apsw.Connection, tables: ModelTables) -> list[str]:
    """Return a model's sqlite-vec tables that are inconsistent."""
    dimensions = vector_dimensions(connection, tables)
    return [table for table in tables if not are_blocks_consistent(connection, table, dimensions)]


def misfiled_memories(connection: apsw.Connection) -> list[int]:
    """Return the memories with a vector whose signature is missing or has wrong bits, unit or kind."""
    reader = SqliteReader(connection)
    model_id = FIRST_MODEL if reader.vectors.current is None else reader.vectors.current.id
    signatures = tables_of(model_id).signatures
    wrong = json.dumps(list(wrong_signatures(connection, signatures, reader.vectors.candidates.vectors)))
    return fetch_column(connection, MISFILED.format(signatures=signatures, model_id=model_id), (wrong,))
