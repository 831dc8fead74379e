"""Recreates tables, indexes and triggers that are missing or altered, and keeps their rows where possible.

The connection does not load sqlite-vec at first, because it would crash on damaged tables.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import apsw

from vector_memory.storage.sqlite import connecting, migrations, schema, time_limit
from vector_memory.storage.sqlite.legacy import quoted
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema_check import (
    SPARE,
    SchemaFaults,
    SchemaObject,
    columns_of,
    is_shadow,
    read_schema,
    schema_faults,
)
from vector_memory.storage.sqlite.vec0 import load_vector_search

TEXT_TABLE = "session_memories"
"""The texts, which cannot be derived from anything else."""

RENAMED = "left_"
"""Prefix of a table's name while its rows are copied."""


def is_record_wrong(connection: apsw.Connection) -> bool:
    """Return whether the file has the current schema but its record says otherwise."""
    version = migrations.recorded_version(connection)
    if version is None:
        return True
    return version < migrations.newest_version() and not schema_faults(connection, migrations.expected_schema())


def can_be_repaired(connection: apsw.Connection, faults: SchemaFaults) -> bool:
    """Return whether the table of texts exists and has all its columns."""
    text = read_schema(connection).get(TEXT_TABLE)
    if text is None or text.type != "table":
        return False
    return TEXT_TABLE not in faults.wrong or _has_all_columns(connection, TEXT_TABLE)


def repair_schema(path: Path, dimensions: int) -> bool:
    """Bring the schema of a damaged file to that of this release; False: this is impossible, nothing was changed.

    `dimensions`: length of the vectors, if the file does not say it. Tables that can be derived from the text may be
    empty afterwards.
    """
    try:
        with _transaction(path) as connection:
            _repair(connection, dimensions)
    except _Unrepairable:
        return False
    return True


def rebuild_indexes(path: Path) -> None:
    """Rebuild all indexes from their tables."""
    with _transaction(path) as connection:
        connection.execute("reindex")


@contextlib.contextmanager
def _transaction(path: Path) -> Iterator[apsw.Connection]:
    with time_limit.translated_errors():
        connection = apsw.Connection(str(path))
        try:
            connecting.wait_for_locks(connection)
            connecting.overwrite_deleted_bytes(connection)
            connecting.flush_the_disk_too(connection)
            connection.pragma("legacy_alter_table", True)  # renaming a table must not change other statements
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
        finally:
            connection.close()  # rolls back what is not committed


class _Unrepairable(Exception):  # noqa: N818 - rolls back the transaction
    pass


def _repair(connection: apsw.Connection, dimensions: int) -> None:
    expected = migrations.expected_schema()
    faults = schema_faults(connection, expected)
    if not can_be_repaired(connection, faults):
        raise _Unrepairable
    for name in faults.triggers:
        connection.execute(f"drop trigger {quoted(name)}")
    if faults.spare:
        _drop(connection, [name for name, item in read_schema(connection).items() if item.table.startswith(SPARE)])
    _recreate_vector_tables(connection, faults, dimensions)
    for name in faults.wrong - set(schema.VECTOR_TABLES):
        if name in expected and expected[name].type == "table" and not is_shadow(name):
            _recreate_table(connection, name, expected[name].sql)
    if "erasure" in faults.wrong:
        connection.execute("insert or ignore into erasure values (1, 1, 0)")
    begin_epoch(connection)
    for name in sorted(schema_faults(connection, expected).wrong):
        _recreate(connection, name, expected[name])
    if is_record_wrong(connection):
        _rewrite_record(connection)
    if schema_faults(connection, expected):
        raise _Unrepairable


def _rewrite_record(connection: apsw.Connection) -> None:
    """Record that the tables are those of this release."""
    connection.execute("drop table schema_migrations")
    connection.execute(migrations.RECORD_TABLE)
    migrations.record(connection, migrations.newest_version(), "repaired")


def _recreate_vector_tables(connection: apsw.Connection, faults: SchemaFaults, dimensions: int) -> None:
    """Replace incomplete vec0 tables by empty ones. sqlite-vec is loaded as soon as that is safe."""
    dimensions = _dimensions(connection) or dimensions
    broken = [table for table in schema.VECTOR_TABLES if any(_is_of(name, table) for name in faults.wrong)]
    for table in broken:
        _drop(connection, [name for name in read_schema(connection) if _is_of(name, table)])
    load_vector_search(connection)
    for table in broken:
        connection.execute(schema.VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=schema.PARTITION_ROWS))


def _is_of(name: str, table: str) -> bool:
    """Return whether this is the name of a vec0 table or of one of its shadow tables."""
    return name == table or (is_shadow(name) and name.startswith(table))


def _dimensions(connection: apsw.Connection) -> int | None:
    """Return the length of the file's vectors according to a vec0 table, or None."""
    for table in schema.VECTOR_TABLES:
        item = read_schema(connection).get(table)
        found = re.search(r"float\[(\d+)\]", item.sql) if item else None
        if found:
            return int(found[1])
    return None


def _drop(connection: apsw.Connection, names: list[str]) -> None:
    """Drop objects by name, without calling the modules of virtual tables."""
    objects = read_schema(connection)
    virtual = [name for name in names if objects[name].sql.lower().startswith("create virtual table")]
    connection.pragma("writable_schema", True)
    connection.executemany("delete from sqlite_schema where name = ?", [(name,) for name in virtual])
    connection.pragma("writable_schema", "reset")
    for name in names:
        if name not in virtual and name in read_schema(connection):
            connection.execute(f"drop {objects[name].type} {quoted(name)}")


def _recreate_table(connection: apsw.Connection, table: str, sql: str) -> None:
    """Recreate a table, and keep its rows if it has all columns and they fit."""
    there = read_schema(connection).get(table)
    if there is None or there.type != "table" or not _has_all_columns(connection, table):
        _drop(connection, [table] if there else [])
        connection.execute(sql)
        return
    renamed = RENAMED + table
    connection.execute(f"alter table {table} rename to {renamed}")
    connection.execute(sql)
    columns = ", ".join(fetch_column(connection, "select name from pragma_table_info(?)", (table,)))
    try:
        connection.execute(f"insert into {table} ({columns}) select {columns} from {renamed}")
    except (apsw.ConstraintError, apsw.MismatchError):
        if table == TEXT_TABLE:
            raise _Unrepairable from None
    last = fetch_value(connection, "select seq from sqlite_sequence where name = ?", (renamed,))
    connection.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (last or 0, table))
    connection.execute(f"drop table {renamed}")


def _has_all_columns(connection: apsw.Connection, table: str) -> bool:
    memory = apsw.Connection(":memory:")
    try:
        memory.execute(migrations.expected_schema()[table].sql)
        return columns_of(memory, table) <= columns_of(connection, table)
    finally:
        memory.close()


def _recreate(connection: apsw.Connection, name: str, item: SchemaObject) -> None:
    """Recreate an index or a trigger. Its name may be in use by the spare tables."""
    there = read_schema(connection)
    for own in (name, SPARE + name):
        if own in there and not there[own].table.startswith(SPARE):
            _drop(connection, [own])
    free = SPARE + name if name in read_schema(connection) else name
    connection.execute(re.sub(rf"\b{name}\b", free, item.sql, count=1))
