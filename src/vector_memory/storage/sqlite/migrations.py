"""Upgrades a file to the current schema. A migration and its record commit together, so any process may run it."""

import contextlib
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import apsw

from vector_memory.domain import utc_now
from vector_memory.errors import DatabaseError
from vector_memory.storage.damage import DamagedError
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.sqlite import erasure, legacy, pending, revision, schema
from vector_memory.storage.sqlite.guards import RUN_FIX
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema_check import Schema, read_schema, schema_faults
from vector_memory.storage.sqlite.vec0 import load_vector_search

RECORD_TABLE = (
    "create table schema_migrations (version integer primary key, name text not null, applied_at text not null)"
)


class Migration(NamedTuple):
    """One migration. `apply(connection, dimensions)` runs in the transaction that also records it."""

    name: str
    apply: Callable[[apsw.Connection, int], None]


def create_tables(connection: apsw.Connection, dimensions: int) -> None:
    """Create the tables, and copy the rows of a file of the original server into them."""
    is_original = legacy.is_original(connection)
    if is_original:
        legacy.rename_tables(connection)
    for script in (schema.TABLES, schema.INDEX_TABLES, schema.INDEXES, schema.TRIGGERS):
        connection.execute(script)
    for table in schema.VECTOR_TABLES:
        connection.execute(schema.VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=schema.PARTITION_ROWS))
    if is_original:
        legacy.move_rows(connection)


def replace_full_text(connection: apsw.Connection, _dimensions: int) -> None:
    """Replace the full-text tables by a keyword index built from the text. One memory is in RAM at a time."""
    connection.execute(schema.KEYWORDS)
    if fetch_value(connection, "select 1 from session_memories limit 1"):
        from vector_memory.storage.sqlite import (  # noqa: PLC0415 - imports numpy, and is rarely needed
            keywords,
        )

        keywords.fill(connection)


def index_times(connection: apsw.Connection, _dimensions: int) -> None:
    """Create indexes for finding the newest memories of a kind, an agent or a task."""
    connection.execute(schema.NEWEST)


def add_tags(connection: apsw.Connection, _dimensions: int) -> None:
    """Create the table for the vocabulary of tagged memories."""
    connection.execute(schema.CANONICAL_TAGS)


def refuse_earlier_releases(connection: apsw.Connection, _dimensions: int) -> None:
    """Make all writes by servers of earlier releases fail, because they do not check the version."""
    connection.execute(schema.REJECT_OLD_WRITERS)


def count_deletes(connection: apsw.Connection, _dimensions: int) -> None:
    """Record whether deleted bytes still have to be erased."""
    connection.execute(erasure.TABLE)
    connection.execute(schema.ERASURE)


def add_revision(connection: apsw.Connection, _dimensions: int) -> None:
    """Add a revision, which shows processes whether their in-memory data is still valid."""
    connection.execute(revision.TABLE)
    connection.execute(revision.TRIGGER)


def add_pending_vectors(connection: apsw.Connection, _dimensions: int) -> None:
    """Record which memories' vectors a process is computing."""
    connection.execute(pending.TABLE)


def index_observations(connection: apsw.Connection, _dimensions: int) -> None:
    """Create the index by which answers find the observations on their reports."""
    connection.execute(schema.OBSERVATIONS)


def count_attempts(connection: apsw.Connection, _dimensions: int) -> None:
    """Record how often processes have failed to compute the vectors of a memory."""
    connection.execute(pending.ATTEMPTS)


def time_promises(connection: apsw.Connection, _dimensions: int) -> None:
    """Record since when a process computes the vectors of a memory."""
    connection.execute(pending.PROMISED_AT)


def index_other_names(_connection: apsw.Connection, _dimensions: int) -> None:
    """Do nothing: terms now include what hashes, versions and URLs are also called, but a later migration covers it."""


def index_names_above(connection: apsw.Connection, _dimensions: int) -> None:
    """Let all words be indexed again: those of a unit now include those of its title and of the headings above it."""
    connection.execute(schema.OUTDATED_WORDS)
    connection.execute("insert into outdated_words select id from keyword_blocks")


def add_token_states(connection: apsw.Connection, _dimensions: int) -> None:
    """Make room for the states of tokens. Passages that are stored already have none until they are embedded again."""
    connection.execute(schema.STATES_OF_TOKENS)
    if fetch_value(connection, "select 1 from sqlite_schema where name = 'spare_embedding_models'"):
        names = re.compile("token_states|memory_passages")
        connection.execute(names.sub(lambda name: f"spare_{name[0]}", schema.STATES_OF_TOKENS))


def fold_words(connection: apsw.Connection, _dimensions: int) -> None:
    """Let all words be indexed again: equal words now have equal terms, however they are written."""
    connection.execute("insert or ignore into outdated_words select id from keyword_blocks")


MIGRATIONS = (
    Migration("create tables", create_tables),
    Migration("replace the full-text tables by a keyword index", replace_full_text),
    Migration("index memories by time", index_times),
    Migration("add the vocabulary of tagged memories", add_tags),
    Migration("refuse writers of earlier releases", refuse_earlier_releases),
    Migration("count deletes until their bytes are erased", count_deletes),
    Migration("add a revision for what processes keep in memory", add_revision),
    Migration("let receipts come before vectors", add_pending_vectors),
    Migration("find observations by their report", index_observations),
    Migration("count attempts to compute vectors", count_attempts),
    Migration("find hashes, versions and URLs by their other names", index_other_names),
    Migration("find memories by their titles, and chunks by the headings above them", index_names_above),
    Migration("keep the states of tokens", add_token_states),
    Migration("record since when vectors are computed", time_promises),
    Migration("find equal words however they are written", fold_words),
)
"""In order. The version of a file is the number of migrations applied to it. Only ever append."""


OURS = {"schema_migrations", "session_memories", "memory_passages", "keyword_memories", "keyword_postings"}
"""A file with at least two of these names is a memory, however damaged."""


def require_ours(connection: apsw.Connection) -> None:
    """Raise DatabaseError, without writing, for a file of another program or of a newer release.

    Also if its schema is damaged or altered: a view in place of a table, and sqlite-vec without its shadow tables, are
    not safe to use.
    """
    version = applied_migrations(connection)
    if version == len(MIGRATIONS):
        if schema_faults(connection, expected_schema()):
            raise DamagedError(RUN_FIX)
    elif version and not tables_at(version) <= names_of_tables(connection):
        raise DamagedError(RUN_FIX)


@cache
def expected_schema() -> Schema:
    """Return the schema after all migrations. The first call takes a few milliseconds."""
    return schema_at(len(MIGRATIONS))


@cache
def tables_at(version: int) -> frozenset[str]:
    """Return the names of the tables of a file of this version."""
    return frozenset(name for name, thing in schema_at(version).items() if thing.type == "table")


def schema_at(version: int) -> Schema:
    """Return the schema after the first `version` migrations."""
    connection = apsw.Connection(":memory:")
    try:
        load_vector_search(connection)
        connection.execute("begin")
        for number, migration in enumerate(MIGRATIONS[:version], start=1):
            migration.apply(connection, 1)
            record(connection, number, migration.name)
        return read_schema(connection)
    finally:
        connection.close()


def migrate(connection: apsw.Connection, dimensions: int) -> None:
    """Apply the missing migrations. If none is missing, nothing is written; a file that is not ours is not changed."""
    if applied_migrations(connection) == len(MIGRATIONS):
        return
    connection.execute("begin immediate")
    try:
        # Another process may have migrated the file while this one waited for the lock.
        done = applied_migrations(connection)
        if legacy.is_original(connection):
            close_to_others(Path(connection.filename))
            back_up(Path(connection.filename), ".before-upgrade")
        for version, migration in enumerate(MIGRATIONS[done:], start=done + 1):
            migration.apply(connection, dimensions)
            record(connection, version, migration.name)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def register_writer_function(connection: apsw.Connection) -> None:
    """Register the function that the triggers of `schema.REJECT_OLD_WRITERS` call on each write."""
    connection.create_scalar_function(
        schema.WRITERS_FUNCTION, partial(len, MIGRATIONS), 0, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
    )


def applied_migrations(connection: apsw.Connection) -> int:
    """Return the number of migrations applied to the file. Raises DatabaseError if it is not one of ours."""
    # First: another process may make it one of ours meanwhile, but never the other way round.
    is_foreign = names_of_tables(connection) and not legacy.is_original(connection)
    if is_ours(connection):
        version = recorded_version(connection)
        if version is None:
            raise DamagedError(RUN_FIX)
        if version > len(MIGRATIONS):
            raise DatabaseError(
                "The database was written by a newer release of vector-memory and was not changed: upgrade "
                "vector-memory to open it."
            )
        return version
    if is_foreign:
        raise DatabaseError(
            "The file is an SQLite database of another program and was not changed: choose another path."
        )
    return 0


def require_known(connection: apsw.Connection) -> None:
    """Raise DatabaseError if a newer release has upgraded the file."""
    if (fetch_value(connection, "select max(version) from schema_migrations") or 0) > len(MIGRATIONS):
        raise DatabaseError(
            "A newer release of vector-memory has upgraded the database since this server started, and this one can "
            "no longer write to it. Nothing was changed: restart this server with the newer release."
        )


def is_ours(connection: apsw.Connection) -> bool:
    """Return whether a file is a memory, even a damaged one."""
    return len(OURS.intersection(fetch_column(connection, "select name from sqlite_schema"))) > 1


def names_of_tables(connection: apsw.Connection) -> set[str]:
    """Return the names of all tables in the file."""
    return set(fetch_column(connection, "select name from sqlite_schema where type = 'table'"))


def recorded_version(connection: apsw.Connection) -> int | None:
    """Return the recorded number of applied migrations; None if the record is damaged."""
    sql = "select sql from sqlite_schema where type = 'table' and name = 'schema_migrations'"
    if fetch_value(connection, sql) != RECORD_TABLE.replace("create table", "CREATE TABLE"):
        return None
    version = fetch_value(connection, "select max(version) from schema_migrations")
    return version if isinstance(version, int) and version > 0 else None


def record(connection: apsw.Connection, version: int, name: str) -> None:
    """Record that a migration has been applied."""
    if version == 1:
        connection.execute(RECORD_TABLE)
    connection.execute("insert into schema_migrations values (?, ?, ?)", (version, name, utc_now()))


def close_to_others(path: Path) -> None:
    """Let only the owner read and write a file of the original server, with its log: it used to be open to everybody.

    A file of another owner stays as it is; `vector-memory doctor` tells.
    """
    for file in (path, log_of(path), log_index_of(path)):
        with contextlib.suppress(OSError):
            file.chmod(0o600)


def back_up(path: Path, suffix: str) -> None:
    """Copy the last committed state to a new file next to it, readable by its owner only: completely or not at all."""
    copy = path.with_name(path.name + suffix)
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}{suffix}-{number}")
    with draft_of(copy, Rules(is_database=True)) as draft:
        copy_database(path, draft.path)
        draft.publish()


def copy_database(path: Path, copy: Path) -> None:
    """Copy the last committed state of the file."""
    source, target = apsw.Connection(str(path)), apsw.Connection(str(copy))
    try:
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(1000)
    finally:
        target.close()
        source.close()
