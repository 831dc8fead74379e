"""Brings a file to the present schema. A migration and its record commit together, so any process may run it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage import erasure, original, schema
from vector_memory.storage.rows import fetch_column, fetch_value
from vector_memory.values import utc_now

RECORD_TABLE = (
    "create table schema_migrations (version integer primary key, name text not null, applied_at text not null)"
)


class Migration(NamedTuple):
    """One step. `apply(connection, dimensions)` runs inside the transaction that also records it."""

    name: str
    apply: Callable[[apsw.Connection, int], None]


def create_tables(connection: apsw.Connection, dimensions: int) -> None:
    """Make the tables; the rows of a file written by the original server move into them."""
    is_original = original.is_original(connection)
    if is_original:
        original.set_aside(connection)
    for script in (schema.TABLES, schema.INDEX_TABLES, schema.INDEXES, schema.TRIGGERS):
        connection.execute(script)
    for table in schema.VECTOR_TABLES:
        connection.execute(schema.VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=schema.PARTITION_ROWS))
    if is_original:
        original.move_rows(connection)


def replace_full_text(connection: apsw.Connection, _dimensions: int) -> None:
    """Make the keyword index in place of the full-text tables, from the text. One memory is held at a time."""
    from vector_memory.storage import keywords  # noqa: PLC0415 - needs numpy, and hardly any start comes here

    connection.execute(schema.KEYWORDS)
    keywords.rebuild(connection)


def index_times(connection: apsw.Connection, _dimensions: int) -> None:
    """Let the newest memories of a kind, an agent or a task be found at once."""
    connection.execute(schema.NEWEST)


def add_tags(connection: apsw.Connection, _dimensions: int) -> None:
    """Make room for the vocabulary of the tagged memories."""
    connection.execute(schema.CANONICAL_TAGS)


def count_deletes(connection: apsw.Connection, _dimensions: int) -> None:
    """Let every process know whether deleted bytes are still to be erased."""
    connection.execute(erasure.TABLE)
    connection.execute(schema.ERASURE)


MIGRATIONS = (
    Migration("create tables", create_tables),
    Migration("replace the full-text tables by a keyword index", replace_full_text),
    Migration("index memories by time", index_times),
    Migration("add the vocabulary of tagged memories", add_tags),
    Migration("count deletes until their bytes are erased", count_deletes),
)
"""In order; the version of a file is the number of migrations it has had. Only ever append."""


def require_ours(connection: apsw.Connection) -> None:
    """Raise a DatabaseError, having written nothing, if the file is of another program or of a newer release."""
    pending_from(connection)


def migrate(connection: apsw.Connection, dimensions: int) -> None:
    """Apply what is missing. Asking what is missing never writes; a file that is not ours is refused untouched."""
    if pending_from(connection) == len(MIGRATIONS):
        return
    connection.execute("begin immediate")
    try:
        # Another process may have been faster while this one waited for the lock.
        done = pending_from(connection)
        if original.is_original(connection):
            back_up(Path(connection.filename), ".before-upgrade")
        for version, migration in enumerate(MIGRATIONS[done:], start=done + 1):
            migration.apply(connection, dimensions)
            record(connection, version, migration.name)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def pending_from(connection: apsw.Connection) -> int:
    """Return how many migrations the file has had, or raise a DatabaseError if it is not one of ours."""
    tables = set(fetch_column(connection, "select name from sqlite_schema where type = 'table'"))
    if {"schema_migrations", "session_memories", "memory_passages"} <= tables:
        version = int(fetch_value(connection, "select max(version) from schema_migrations"))
        if version > len(MIGRATIONS):
            raise DatabaseError(
                "The database was written by a newer release of vector-memory and was left untouched: upgrade "
                "vector-memory to open it."
            )
        return version
    if tables and not original.is_original(connection):
        raise DatabaseError(
            "The file is an SQLite database of another program and was left untouched: choose another path."
        )
    return 0


def record(connection: apsw.Connection, version: int, name: str) -> None:
    """Note that a migration has been applied."""
    if version == 1:
        connection.execute(RECORD_TABLE)
    connection.execute("insert into schema_migrations values (?, ?, ?)", (version, name, utc_now()))


def back_up(path: Path, suffix: str) -> None:
    """Copy the file as last committed to a new file beside it, readable by its owner only."""
    copy = path.with_name(path.name + suffix)
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}{suffix}-{number}")
    copy.touch(mode=0o600)
    try:
        copy_database(path, copy)
    except BaseException:
        copy.unlink()
        raise


def copy_database(path: Path, copy: Path) -> None:
    """Copy the file as last committed."""
    source, target = apsw.Connection(str(path)), apsw.Connection(str(copy))
    try:
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(1000)
    finally:
        target.close()
        source.close()
