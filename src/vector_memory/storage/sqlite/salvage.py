"""Repairs a file by copying: what can be read goes into a new file, from which the rest is derived again.

A row is taken as it is if it can be, or else with defaults in place of what its columns cannot contain.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

from vector_memory.domain import Fingerprint, utc_now
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.storage.connection import UNLIMITED
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.json_columns import object_in, texts_in
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.storage.queries.lifecycle import Lifecycle
from vector_memory.storage.queries.memories import memory_from_row
from vector_memory.storage.queries.portions import Lifetimes
from vector_memory.storage.records import LastIds, Memory
from vector_memory.storage.sqlite import migrations, schema_check
from vector_memory.storage.sqlite.legacy import CHUNKED, normal_tags, text_of
from vector_memory.storage.sqlite.references import unreadable_tables
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column, fetch_value
from vector_memory.storage.sqlite.schema import VECTOR_TABLES
from vector_memory.storage.sqlite.time_limit import translated_errors
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter, vector_dimensions
from vector_memory.storage.sqlite.vec0 import load_vector_search

T = TypeVar("T")

TEXTS = "session_memories"
"""The table of what cannot be derived from anything else."""

NOTHING = (
    "No memory in the file can be read, and nothing was changed. Stop all servers, then restore the latest backup: "
    "`vector-memory restore SOURCE --overwrite`."
)

MEMORIES_AT_ONCE = 100
MOST = 1 << 52
"""The highest id and number. Near the largest integer, SQLite would report a full database."""

RANGES = {"session_iter": (999_999_999, 1), "access_count": (MOST, 0), "chunk_count": (MOST, 0), "turn": (MOST, 0)}
"""By column of a memory: the highest value from 0, and the default."""

INVALID_RECORDS = f"""
    select 'sqlite_sequence' from sqlite_sequence
    where typeof(name) <> 'text' or typeof(seq) <> 'integer' or seq not between 0 and {MOST}
    union select 'memory_lifecycle' from memory_lifecycle
    where datetime(coalesce(expires_at, '2000-01-01')) is null or pinned not in (0, 1)
    union select 'erasure' where not exists (select 1 from erasure where max(deletes, erased) between 0 and {MOST})
"""
"""The highest ids ever given, what is kept for how long, and what processes tell one another."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The number of copied memories, and the ids of those that cannot be read."""

    copied: int = 0
    lost: list[int] = field(default_factory=list)


def has_texts(connection: apsw.Connection) -> bool:
    """Return whether the file has a table with the texts."""
    table = schema_check.read_schema(connection).get(TEXTS)
    return table is not None and table.type == "table" and {"id", "content"} <= own_columns(connection)


def own_columns(connection: apsw.Connection) -> set[str]:
    """Return the columns of the table of texts that are those of this release."""
    names = set(Memory.__dataclass_fields__) - {"chunked"} | {"auto_chunk"}
    return names & schema_check.columns_of(connection, TEXTS)


def invalid_columns(connection: apsw.Connection) -> dict[str, int]:
    """Return what cannot be in a file of this release, by table and column, with the number of rows."""
    found = dict.fromkeys(fetch_column(connection, INVALID_RECORDS), 1)
    for memory_id in fetch_column(connection, f"select id from {TEXTS}"):
        row = raw_row(connection, memory_id)
        for name, value in valid_row(row).items():
            if value != row[name] and name != "content":  # the text is compared with its checksum
                found[f"{TEXTS}.{name}"] = found.get(f"{TEXTS}.{name}", 0) + 1
    return found


def raw_row(connection: apsw.Connection, memory_id: int) -> dict[str, Any]:
    """Return what is in the columns of a memory. Texts are bytes, unless they are UTF-8."""
    columns = (f"iif(typeof({name}) = 'text', cast({name} as blob), {name}) {name}" for name in own_columns(connection))
    (row,) = fetch(connection, as_dict, f"select {', '.join(columns)} from {TEXTS} where id = ?", (memory_id,))
    return {name: decoded(value) for name, value in row.items()}


def decoded(value: object) -> object:
    """Return bytes as text if they are UTF-8."""
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return value


def valid_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with what its columns can contain: its own values where that is possible."""
    texts = {name: text_of(value) for name, value in row.items() if name not in RANGES}
    created = texts["created_at"] if is_time(texts.get("created_at")) else utc_now()
    numbers = {name: number_of(row.get(name), *bounds) for name, bounds in RANGES.items()}
    required = ("memory_type", "agent_id", "content", "content_hash")
    return {
        **texts,
        **numbers,
        **{name: texts.get(name) or "" for name in required},
        "id": row["id"] if 0 < row["id"] <= MOST else None,
        "tags": json_of(texts.get("tags"), texts_in, "[]"),
        "metadata": json_of(texts.get("metadata"), object_in, "{}"),
        "created_at": created,
        **{name: texts[name] if is_time(texts.get(name)) else created for name in ("updated_at", "accessed_at")},
        "auto_chunk": int(texts.get("memory_type") in CHUNKED),
    }


def number_of(value: object, highest: int, default: int) -> int:
    """Return a value that is an integer in the range, or the default."""
    return value if isinstance(value, int) and 0 <= value <= highest else default


def is_time(value: object) -> bool:
    """Return whether a value is a time."""
    try:
        return bool(datetime.fromisoformat(str(value)))
    except ValueError:
        return False


def json_of(value: str | None, parse: Callable[[str], object], empty: str) -> str:
    """Return a value that is the JSON it should be, its items as texts if they should be, or nothing but JSON."""
    with contextlib.suppress(DamagedError):
        parse(value or "")
        return value or ""
    with contextlib.suppress(DamagedError, ValueError, RecursionError):
        parse(found := normal_tags(value))
        return found
    return empty


def attempt(read: Callable[[], T]) -> T | None:
    """Return what can be read, or None."""
    try:
        with translated_errors():
            return read()
    except VectorMemoryError:
        return None


def known_ids(connection: apsw.Connection) -> tuple[list[int], bool]:
    """Return the ids of all memories that the table or an index names, and whether the table could be read wholly."""
    indexes = [name for name, item in schema_check.read_schema(connection).items() if item[:2] == ("index", TEXTS)]
    queries = [f"{TEXTS} not indexed order by id", f"{TEXTS} not indexed order by id desc"]
    ids = set[int]()
    is_whole = True
    for query in queries + [f'{TEXTS} indexed by "{name}"' for name in indexes]:
        try:
            ids.update(number for (number,) in connection.execute(f"select id from {query}") if type(number) is int)
        except apsw.Error:
            is_whole = is_whole and query not in queries
    return sorted(ids, key=lambda number: (not 0 < number <= MOST, number)), is_whole


def salvage(source: apsw.Connection, target: Path, dimensions: int) -> Salvaged:
    """Copy what can be read to a new file. Raises DatabaseError if that is nothing.

    `dimensions`: the length of the vectors, if the file does not say it.
    """
    ids, is_whole = known_ids(source) if has_texts(source) else ([], False)
    derived = has_derived(source)
    lengths = attempt(lambda: vector_dimensions(source))
    with contextlib.closing(apsw.Connection(str(target))) as connection:
        # An unfinished draft is discarded.
        connection.pragma("journal_mode", "memory")
        connection.pragma("synchronous", "off")
        load_vector_search(connection)
        migrations.migrate(connection, lengths or dimensions)
        connection.execute("begin")
        salvaged = Copier(source, connection, derived=derived).copy(ids)
        if not salvaged.copied and not is_whole:
            raise DatabaseError(NOTHING)
        connection.execute("commit")
    return salvaged


def has_derived(connection: apsw.Connection) -> bool:
    """Return whether chunks, passages and vectors can be read: sqlite-vec crashes without its tables."""
    wrong = schema_check.schema_faults(connection, migrations.expected_schema()).wrong
    tables = ("memory_chunks", "memory_passages", "token_states", "later_links", "embedding_models", *VECTOR_TABLES)
    is_whole = not any(name.startswith(tables) for name in wrong)
    return is_whole and attempt(lambda: unreadable_tables(connection, VECTOR_TABLES)) == []


class Copier:
    """Copies memories from a damaged file to a new one: whole, or else without what cannot be read."""

    def __init__(self, source: apsw.Connection, target: apsw.Connection, *, derived: bool) -> None:
        self._source = source
        self._target = target
        self._reader, self._writer = SqliteReader(source), SqliteWriter(target)
        self._derived = derived
        self._given = self._ids_given()
        self._fingerprint: Fingerprint | None = attempt(self._reader.fingerprint) if derived else None

    def copy(self, ids: Sequence[int]) -> Salvaged:
        """Copy all that can be read, and index its words."""
        lost: list[int] = []
        for start in range(0, len(ids), MEMORIES_AT_ONCE):
            portion = ids[start : start + MEMORIES_AT_ONCE]
            if not self._put(attempt(lambda: self._whole(portion))):  # noqa: B023 - is called at once
                lost += [number for number in portion if not self._copy_alone(number)]
        self._writer.keywords.rebuild()
        self._copy_lifetimes()
        if traces := attempt(self._reader.traces):
            self._writer.add_traces(traces)
        self._copy_links(set(ids) - set(lost))
        self._writer.upkeep.portions.finish(self._given, attempt(self._reader.canonical_tags) or [])
        return Salvaged(len(ids) - len(lost), lost)

    def _copy_lifetimes(self) -> None:
        """Copy when memories expire, which are pinned, and which supersede others."""
        found = attempt(self._reader.upkeep.portions.lifetimes) or Lifetimes([], [])
        there = set(fetch_column(self._target, f"select id from {TEXTS}"))
        for row in found.lifecycles:
            if row.memory_id in there:
                self._writer.expire(row.memory_id, row.expires_at if is_time(row.expires_at) else None)
                self._writer.pin(row.memory_id, pinned=row.pinned)
        for link in found.links:
            if link.older_id < link.newer_id and there.issuperset(link):
                self._writer.supersede(link.newer_id, [link.older_id])

    def _copy_links(self, copied: set[int]) -> None:
        links = attempt(lambda: self._reader.links((0, 0), UNLIMITED)) if self._derived else None
        self._writer.add_links([link for link in links or () if {link.older_id, link.newer_id} <= copied])

    def _ids_given(self) -> LastIds:
        last_ids = attempt(self._reader.last_ids) or LastIds(0, 0)
        return LastIds(*(number if 0 < number <= MOST else 0 for number in last_ids))

    def _copy_alone(self, memory_id: int) -> bool:
        ways: tuple[Callable[[int], list[WholeMemory]], ...] = (
            lambda number: self._whole([number]),
            self._with_chunks,
            lambda number: [WholeMemory(replace(self._bare(number), chunk_count=0), [], None)],
        )
        return any(self._put(attempt(lambda: way(memory_id))) for way in ways)  # noqa: B023 - is called at once

    def _whole(self, ids: Sequence[int]) -> list[WholeMemory]:
        found = self._reader.upkeep.portions.memories(ids[0] - 1, len(ids)) if self._derived else []
        is_complete = [whole.memory.id for whole in found] == list(ids) and ids[0] > 0 and ids[-1] <= MOST
        return found if is_complete and all(each.memory == self._bare(each.memory.id) for each in found) else []

    def _with_chunks(self, memory_id: int) -> list[WholeMemory]:
        if not self._derived:
            return []
        chunks = self._reader.chunks_of(memory_id)
        return [WholeMemory(replace(self._bare(memory_id), chunk_count=len(chunks)), chunks, None)]

    def _bare(self, memory_id: int) -> Memory:
        row = valid_row(raw_row(self._source, memory_id))
        kept = attempt(lambda: self._reader.lifecycle(memory_id)) or Lifecycle()
        lasting = {"expires_at": kept.expires_at, "pinned": kept.pinned}
        return memory_from_row(**row | lasting | {"id": row["id"] or self._next_id()})

    def _next_id(self) -> int:
        """Return an id for a memory that has an impossible one. All others have been copied before."""
        highest = fetch_value(self._target, f"select max(id) from {TEXTS}") or 0
        return max(int(highest), self._given.memory) + 1

    def _put(self, memories: list[WholeMemory] | None) -> bool:
        """Add memories to the new file; False: they do not fit."""
        if not memories:
            return False
        with_vectors = any(whole.passages is not None for whole in memories)
        try:
            with translated_errors(), self._target:
                self._writer.upkeep.portions.add_memories(memories, self._fingerprint if with_vectors else None)
        except VectorMemoryError:
            return False
        return True
