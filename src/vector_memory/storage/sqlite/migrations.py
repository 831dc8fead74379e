"""Creates the tables of a file, and takes over the rows of a file of the original server."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import apsw

from vector_memory.domain import utc_now
from vector_memory.domain.fields import REVISION
from vector_memory.errors import DatabaseError
from vector_memory.storage.base import EXPORT_AND_IMPORT
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.queries.passages import FIRST_MODEL
from vector_memory.storage.sqlite import legacy, schema
from vector_memory.storage.sqlite.connecting import load_vector_search
from vector_memory.storage.sqlite.rows import RUN_FIX, fetch_column, fetch_value

RECORD_TABLE = (
    "create table schema_migrations (version integer primary key, name text not null, applied_at text not null) strict"
)


VERSION = 32 + REVISION
"""The version of the tables in `schema`. Until the first release, files of all other versions are refused."""

OURS = {"schema_migrations", "session_memories", "memory_passages", "keyword_memories", "keyword_postings"}
"""A file with at least two of these names is a memory, however damaged."""


NEWER = (
    "The database was written by a newer release of vector-memory and was not changed: upgrade vector-memory to open "
    "it."
)
DEVELOPMENT = (
    f"The database was written by a development version of vector-memory, and was not changed. {EXPORT_AND_IMPORT}"
)
FOREIGN = "The file is an SQLite database of another program and was not changed: choose another path."


# Notices tables, indexes and triggers that are not those of this release, before anything else is read. sqlite-vec
# crashes without its own tables, a view in place of a table can run forever, and another program's triggers would run
# in our transactions. The file may contain other tables, views and indexes: our statements never use them.


class SchemaObject(NamedTuple):
    """A table, index, view or trigger, and the statement that creates it, as `normal` returns it."""

    type: str
    name: str
    sql: str


Schema = frozenset[SchemaObject]


def read_schema(connection: apsw.Connection) -> Schema:
    """Return everything in the file that a statement created."""
    rows = connection.execute("select type, name, sql from sqlite_schema where sql is not null").fetchall()
    return frozenset(SchemaObject(str(kind), str(name), normal(str(sql))) for kind, name, sql in rows)


@lru_cache(maxsize=256)
def normal(sql: str) -> str:
    """Normalize a statement: quotes, white space, case, the lengths of vectors."""
    sql = re.sub(r"\s+", " ", sql.replace('"', "").lower())
    sql = re.sub(r" ?([(),=;]) ?", r"\1", sql)
    return re.sub(r"(float|bit)\[\d+\]", r"\1[]", re.sub(r"\bmain\.", "", sql)).strip()


def require_ours(connection: apsw.Connection) -> None:
    """Raise DatabaseError, without writing, for a file of another program, or that this release cannot open.

    Also if its schema is damaged or altered: a view in place of a table, and sqlite-vec without its shadow tables, are
    not safe to use.
    """
    with connection:  # one state of the file: another process may be changing its models, and with them its tables
        if version_of(connection) and altered_in(connection):
            raise DamagedError(RUN_FIX)


def altered_in(connection: apsw.Connection) -> set[str]:
    """Return the names of ours that are missing or defined differently, and those of unknown triggers.

    Ours are the tables of the file's models, too.
    """
    models: list[int] = []
    if "embedding_models" in names_of_tables(connection):  # a view in its place can run forever
        with contextlib.suppress(apsw.SQLError):
            sql = "select id from embedding_models where typeof(id) = 'integer' order by id"
            models = fetch_column(connection, sql)
    found, expected = read_schema(connection), expected_schema(tuple(models) or (FIRST_MODEL,))
    return {item.name for item in (expected - found) | {item for item in found - expected if item.type == "trigger"}}


@lru_cache(maxsize=16)
def expected_schema(models: tuple[int, ...]) -> Schema:
    """Return the schema of this release, with the tables of some models. The first call takes a few milliseconds."""
    connection = apsw.Connection(":memory:")
    try:
        load_vector_search(connection)
        connection.execute("begin")
        create_tables(connection, 1, models=models)
        return read_schema(connection)
    finally:
        connection.close()


def migrate(connection: apsw.Connection, dimensions: int, cut: legacy.Cut | None = None) -> None:
    """Create the tables. A file that has them is not written, nor is another program's.

    `cut`: cuts the documents of the original server that have no chunks yet.
    """
    if version_of(connection) and (cut is None or fetch_value(connection, legacy.UNCUT) is None):
        return
    with changing(connection):
        if legacy.is_original(connection):
            close_to_others(Path(connection.filename))
            keep_copy(Path(connection.filename))
        if not version_of(connection):  # another process may have created them while this one waited for the lock
            create_tables(connection, dimensions)
        if cut is not None:
            legacy.cut_documents(connection, cut)


def migrate_without_vectors(connection: apsw.Connection) -> None:
    """Create the tables of a file for which sqlite-vec cannot be loaded: those of vectors are empty for ever."""
    with changing(connection):
        if not names_of_tables(connection):
            create_tables(connection, 1, "create table {table} (passage_id integer primary key, embedding blob)")


@contextlib.contextmanager
def changing(connection: apsw.Connection) -> Iterator[None]:
    """Change the file in one transaction, while nobody else writes."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # if the disk is full, SQLite may have rolled back already
            connection.execute("rollback")
        raise


def create_tables(
    connection: apsw.Connection,
    dimensions: int,
    plain: str | None = None,
    models: Sequence[int] = (FIRST_MODEL,),
) -> None:
    """Create the tables, and copy the rows of a file of the original server into them.

    `plain`: the statement that creates a table in place of each of sqlite-vec.
    """
    is_original = legacy.is_original(connection)
    if is_original:
        legacy.rename_tables(connection)
    for script in schema.SCRIPTS:
        connection.execute(script)
    for model_id in models:
        create_vector_tables(connection, dimensions, model_id, plain)
    connection.execute(RECORD_TABLE)
    connection.execute("insert into schema_migrations values (?, 'create tables', ?)", (VERSION, utc_now()))
    if is_original:
        # They import numpy, and are rarely needed.
        from vector_memory.storage.queries.keywords import KeywordIndex  # noqa: PLC0415
        from vector_memory.storage.sqlite.transactions import SqliteConnection  # noqa: PLC0415

        legacy.move_rows(connection)
        KeywordIndex(SqliteConnection(connection)).fill()


def create_vector_tables(connection: apsw.Connection, dimensions: int, model_id: int, plain: str | None = None) -> None:
    """Create the tables of sqlite-vec of a model, and the triggers that delete from them."""
    for table, sql in schema.vector_tables(dimensions, model_id).items():
        connection.execute(sql if plain is None else plain.format(table=table))
    for trigger in schema.vector_triggers(model_id):
        connection.execute(trigger)


def drop_vector_tables(connection: apsw.Connection, model_id: int) -> None:
    """Drop the tables of sqlite-vec of a model, and their triggers."""
    for table in schema.tables_of(model_id):
        connection.execute(f"drop trigger removed_from_{table}")
        connection.execute(f"drop table {table}")


def version_of(connection: apsw.Connection) -> int:
    """Return the version of the file; 0: it is empty, or of the original server. Raises DatabaseError for all else."""
    # First: another process may make it one of ours meanwhile, but never the other way round.
    is_foreign = names_of_tables(connection) and not legacy.is_original(connection)
    if is_ours(connection):
        version = recorded_version(connection)
        if version is None:
            raise DamagedError(RUN_FIX)
        if version > VERSION:
            raise DatabaseError(NEWER)
        if version < VERSION:
            raise DatabaseError(DEVELOPMENT)
        return version
    if is_foreign:
        raise DatabaseError(FOREIGN)
    return 0


def is_ours(connection: apsw.Connection) -> bool:
    """Return whether a file is a memory, even a damaged one."""
    return len(OURS.intersection(fetch_column(connection, "select name from sqlite_schema"))) > 1


def names_of_tables(connection: apsw.Connection) -> set[str]:
    """Return the names of all tables in the file."""
    return set(fetch_column(connection, "select name from sqlite_schema where type = 'table'"))


def recorded_version(connection: apsw.Connection) -> int | None:
    """Return the recorded version; None if the record is damaged."""
    sql = "select sql from sqlite_schema where type = 'table' and name = 'schema_migrations'"
    if fetch_value(connection, sql) != RECORD_TABLE.replace("create table", "CREATE TABLE"):
        return None
    version = fetch_value(connection, "select max(version) from schema_migrations")
    return version if isinstance(version, int) and version > 0 else None


def close_to_others(path: Path) -> None:
    """Let only the owner read and write a file of the original server, with its log: it used to be open to everybody.

    Another owner's file stays as it is; `vector-memory doctor` reports it.
    """
    for file in (path, log_of(path), log_index_of(path)):
        with contextlib.suppress(OSError):
            file.chmod(0o600)


def keep_copy(path: Path) -> None:
    """Copy the last committed state to a new file next to it, readable by its owner only: completely or not at all."""
    names = (f"{path.name}.before-upgrade{number}" for number in ("", *(f"-{other}" for other in range(2, 1_000))))
    copy = next(place for place in map(path.with_name, names) if not place.exists())
    with draft_of(copy, Rules(is_database=True)) as draft:
        source, target = apsw.Connection(str(path)), apsw.Connection(str(draft.path))
        with contextlib.closing(source), contextlib.closing(target), target.backup("main", source, "main") as backup:
            backup.step()
        draft.publish()
