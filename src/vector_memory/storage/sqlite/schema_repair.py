"""Making tables, indexes and triggers again that are missing or altered; their rows are kept where that is possible.

Works on a connection that has not loaded sqlite-vec, which would crash on what is to be mended.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import apsw

from vector_memory.storage.sqlite import connecting, guards, migrations, schema
from vector_memory.storage.sqlite.legacy import quoted
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema_check import (
    SPARE,
    SchemaFaults,
    Thing,
    columns_of,
    is_shadow,
    read_schema,
    schema_faults,
)
from vector_memory.storage.sqlite.vec0 import load_vector_search

TEXT_TABLE = "session_memories"
"""What nothing else holds."""

LEFT = "left_"
"""Begins the name of a table while its rows are moved."""


def is_record_wrong(connection: apsw.Connection) -> bool:
    """Tell whether the file has the present schema, but does not say so."""
    version = migrations.recorded_version(connection)
    if version is None:
        return True
    return version < len(migrations.MIGRATIONS) and not schema_faults(connection, migrations.expected_schema())


def can_be_repaired(connection: apsw.Connection, faults: SchemaFaults) -> bool:
    """Tell whether the table of the texts is there, with all its columns."""
    text = read_schema(connection).get(TEXT_TABLE)
    if text is None or text.type != "table":
        return False
    return TEXT_TABLE not in faults.wrong or _has_all_columns(connection, TEXT_TABLE)


def repair_schema(path: Path, dimensions: int) -> bool:
    """Bring the schema of a damaged file to that of this release; False: that cannot be done, and nothing was.

    `dimensions`: of the vectors, if the file does not say it. Tables that can be filled again from the text may be
    empty afterwards.
    """
    try:
        with _transaction(path) as connection:
            _mend(connection, dimensions)
    except _NotMendable:
        return False
    return True


def rebuild_indexes(path: Path) -> None:
    """Make all indexes again from their tables."""
    with _transaction(path) as connection:
        connection.execute("reindex")


@contextlib.contextmanager
def _transaction(path: Path) -> Iterator[apsw.Connection]:
    with guards.translated_errors():
        connection = apsw.Connection(str(path))
        try:
            connecting.wait_for_locks(connection)
            connecting.overwrite_deleted_bytes(connection)
            connection.pragma("legacy_alter_table", True)  # or SQLite would rewrite what refers to a renamed table
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
        finally:
            connection.close()  # which undoes what is not committed


class _NotMendable(Exception):  # noqa: N818 - undoes the transaction
    pass


def _mend(connection: apsw.Connection, dimensions: int) -> None:
    expected = migrations.expected_schema()
    faults = schema_faults(connection, expected)
    if not can_be_repaired(connection, faults):
        raise _NotMendable
    for name in faults.triggers:
        connection.execute(f"drop trigger {quoted(name)}")
    if faults.spare:
        _forget(connection, [name for name, thing in read_schema(connection).items() if thing.table.startswith(SPARE)])
    _remake_vector_tables(connection, faults, dimensions)
    for name in faults.wrong - set(schema.VECTOR_TABLES):
        if name in expected and expected[name].type == "table" and not is_shadow(name):
            _remake_table(connection, name, expected[name].sql)
    if "erasure" in faults.wrong:
        connection.execute("insert or ignore into erasure values (1, 1, 0)")
    begin_epoch(connection)
    for name in sorted(schema_faults(connection, expected).wrong):
        _remake(connection, name, expected[name])
    if is_record_wrong(connection):
        _record_again(connection)
    if schema_faults(connection, expected):
        raise _NotMendable


def _record_again(connection: apsw.Connection) -> None:
    """Note that the file has had all migrations."""
    connection.execute("drop table schema_migrations")
    for version, migration in enumerate(migrations.MIGRATIONS, start=1):
        migrations.record(connection, version, migration.name)


def _remake_vector_tables(connection: apsw.Connection, faults: SchemaFaults, dimensions: int) -> None:
    """Put empty vec0 tables in the place of those that lack something; sqlite-vec is loaded when it is safe."""
    dimensions = _dimensions(connection) or dimensions
    broken = [table for table in schema.VECTOR_TABLES if any(_is_of(name, table) for name in faults.wrong)]
    for table in broken:
        _forget(connection, [name for name in read_schema(connection) if _is_of(name, table)])
    load_vector_search(connection)
    for table in broken:
        connection.execute(schema.VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=schema.PARTITION_ROWS))


def _is_of(name: str, table: str) -> bool:
    """Tell whether a name is that of a vec0 table or of one of its shadow tables."""
    return name == table or (is_shadow(name) and name.startswith(table))


def _dimensions(connection: apsw.Connection) -> int | None:
    """Return the length of the file's vectors, if a vec0 table is there that says it."""
    for table in schema.VECTOR_TABLES:
        thing = read_schema(connection).get(table)
        found = re.search(r"float\[(\d+)\]", thing.sql) if thing else None
        if found:
            return int(found[1])
    return None


def _forget(connection: apsw.Connection, names: list[str]) -> None:
    """Drop whatever has the names, without asking the modules of virtual tables."""
    things = read_schema(connection)
    virtual = [name for name in names if things[name].sql.lower().startswith("create virtual table")]
    connection.pragma("writable_schema", True)
    connection.executemany("delete from sqlite_schema where name = ?", [(name,) for name in virtual])
    connection.pragma("writable_schema", "reset")
    for name in names:
        if name not in virtual and name in read_schema(connection):
            connection.execute(f"drop {things[name].type} {quoted(name)}")


def _remake_table(connection: apsw.Connection, table: str, sql: str) -> None:
    """Make a table as it should be; its rows are kept if it has all columns and they fit."""
    there = read_schema(connection).get(table)
    if there is None or there.type != "table" or not _has_all_columns(connection, table):
        _forget(connection, [table] if there else [])
        connection.execute(sql)
        return
    left = LEFT + table
    connection.execute(f"alter table {table} rename to {left}")
    connection.execute(sql)
    columns = ", ".join(fetch_column(connection, "select name from pragma_table_info(?)", (table,)))
    try:
        connection.execute(f"insert into {table} ({columns}) select {columns} from {left}")
    except (apsw.ConstraintError, apsw.MismatchError):
        if table == TEXT_TABLE:
            raise _NotMendable from None
    last = fetch_value(connection, "select seq from sqlite_sequence where name = ?", (left,))
    connection.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (last or 0, table))
    connection.execute(f"drop table {left}")


def _has_all_columns(connection: apsw.Connection, table: str) -> bool:
    memory = apsw.Connection(":memory:")
    try:
        memory.execute(migrations.expected_schema()[table].sql)
        return columns_of(memory, table) <= columns_of(connection, table)
    finally:
        memory.close()


def _remake(connection: apsw.Connection, name: str, thing: Thing) -> None:
    """Make an index or a trigger as it should be. The name may be taken by that of the spare twin."""
    there = read_schema(connection)
    for own in (name, SPARE + name):
        if own in there and not there[own].table.startswith(SPARE):
            _forget(connection, [own])
    free = SPARE + name if name in read_schema(connection) else name
    connection.execute(re.sub(rf"\b{name}\b", free, thing.sql, count=1))
