"""A memory in a file, as the doctor sees it."""

from collections.abc import Iterator
from pathlib import Path

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Progress
from vector_memory.maintenance.doctor.agreement import Check, agreements, copied_fields, orphans
from vector_memory.maintenance.doctor.installation import sqlite_findings
from vector_memory.maintenance.doctor.place import close_to_others, place_findings
from vector_memory.maintenance.doctor.repairs import Repairs
from vector_memory.maintenance.doctor.report import (
    Finding,
    State,
    fine,
    first_names,
    fixable,
    problem,
    warning,
)
from vector_memory.settings import Settings
from vector_memory.storage.maintenance_api import EXPORT_AND_IMPORT
from vector_memory.storage.sqlite import inspection, references, schema_repair, value_repair
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import expected_schema
from vector_memory.storage.sqlite.schema_check import schema_faults
from vector_memory.storage.sqlite.schema_repair import rebuild_indexes, repair_schema
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.time_limit import translated_errors
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.storage.sqlite.value_faults import value_faults

NOT_PRESENT = {
    FileKind.EMPTY: warning("schema", "The file is empty.", "The server creates the tables when it starts."),
    FileKind.ORIGINAL: warning(
        "schema",
        "The file was written by the original server and has not been upgraded yet.",
        "The server upgrades it when it starts, and keeps a copy whose name ends in .before-upgrade.",
    ),
    FileKind.OLDER: warning(
        "schema", "The file was written by an earlier release.", "The server upgrades it when it starts."
    ),
    FileKind.DEVELOPMENT: problem("schema", "The file was written by a development version.", EXPORT_AND_IMPORT),
    FileKind.NEWER: problem(
        "schema", "The file was written by a newer release of vector-memory.", "Upgrade vector-memory to open it."
    ),
    FileKind.FOREIGN: problem(
        "schema", "The file is an SQLite database of another program.", "Choose another file with --database-path."
    ),
}

RESTORE = "Stop all servers, then restore the latest backup: `vector-memory restore SOURCE --overwrite`."

# ruff: noqa: D102 - the methods are described in `examination`


class SqliteMemory:
    """`examination.ExaminedMemory` over a file. This process must not have it open."""

    def __init__(self, path: Path, settings: Settings, model: EmbeddingModel) -> None:
        self._path = path
        self._settings = settings
        self._model = model

    def engine(self) -> Iterator[Finding]:
        return sqlite_findings()

    def place(self) -> Iterator[Finding]:
        return place_findings(self._path)

    def contents(self) -> list[Finding]:
        return contents_findings(self._path, Indexer(self._model, self._settings))

    def repair(self, wrong: set[str], on_progress: Progress | None) -> list[str]:
        done = []
        if "permissions" in wrong:
            closed = close_to_others(self._path)
            done.append(f"Removed other users' access to {counted(closed, 'file or folder', 'files and folders')}.")
        if "integrity" in wrong:
            rebuild_indexes(self._path)
            return [*done, "Rebuilt the indexes."]
        if "tables" in wrong and not repair_schema(self._path, self._settings.embedding_dim):
            return done
        if wrong - {"permissions"}:
            database = Database(self._path, dimensions=self._settings.embedding_dim)
            try:
                done += self._repair_contents(database, wrong, on_progress)
            finally:
                database.close()
        return done

    def _repair_contents(self, database: Database, wrong: set[str], on_progress: Progress | None) -> list[str]:
        with database.write() as connection:
            if "values" in wrong:
                number = value_repair.repair_values(connection, value_faults(connection))
                return [f"Repaired or removed {counted(number, 'row')} with invalid values."]
            if "tables" in wrong:
                value_repair.replace_unreadable_tables(connection)
                return ["Restored tables, indexes and triggers."]
            if "orphans" in wrong:
                return [f"Removed {counted(references.delete_orphans(connection), 'orphaned row')}."]
        with database.read() as connection:
            misfiled = references.misfiled_memories(connection)
        repairs = Repairs(SqliteStorage(database), self._model, Indexer(self._model, self._settings), translated_errors)
        return repairs.run(wrong, misfiled, on_progress)


def contents_findings(path: Path, indexer: Indexer) -> list[Finding]:
    """Return the findings about the file without changing it. A damaged file gets only a few checks."""
    if not path.is_file():
        return [
            problem(
                "file",
                f"There is no memory at {path}.",
                "The server creates it when it starts. If you expected one, check --database-path.",
            )
        ]
    try:
        return inspection.inspect(path, lambda connection: list(_findings(connection, indexer)))
    except VectorMemoryError as error:
        return [problem("file", f"The file cannot be read. {error}", RESTORE)]


def _findings(connection: Connection, indexer: Indexer) -> Iterator[Finding]:
    kind = inspection.file_kind(connection)
    length = inspection.database_bytes(connection)
    yield fine("file", f"The file is readable; its size is {length / 1e6:,.1f} MB.")
    yield NOT_PRESENT.get(kind) or fine("schema", "The file has the format of this release.")
    structure = integrity(connection)
    yield structure
    if kind == FileKind.PRESENT and structure.state == State.OK:
        yield (found := tables(connection))
        if found.state == State.OK:
            yield (found := values(connection))
        if found.state == State.OK:
            yield from _agreements(connection, indexer)


def _agreements(connection: Connection, indexer: Indexer) -> Iterator[Finding]:
    """Compare the contents of the tables, whose values are valid."""
    other: dict[str, Check] = {
        "orphans": lambda: [orphans(references.orphaned_rows(connection))],
        "index": lambda: [copied_fields(references.misfiled_memories(connection))],
    }
    yield from agreements(SqliteReader(connection), indexer, translated_errors, restore=RESTORE, other=other)


def tables(connection: Connection) -> Finding:
    """Check that tables, indexes and triggers are those of this release."""
    faults = schema_faults(connection, expected_schema())
    if not faults and not schema_repair.is_record_wrong(connection):
        if unreadable := references.unreadable_tables(connection):
            return fixable("tables", f"Vectors cannot be read: {', '.join(unreadable)}.")
        return fine("tables", "The tables match this release.")
    names = sorted(faults.wrong | faults.triggers)
    wrong = f"Tables, indexes or triggers are missing, altered or unknown: {first_names(names)}." if names else ""
    shadowed = "The tables for another model's vectors are damaged." if faults.spare else ""
    message = " ".join(filter(None, [wrong, shadowed])) or "The record of the file's schema is damaged."
    if schema_repair.can_be_repaired(connection, faults):
        return fixable("tables", message)
    return problem("tables", message, RESTORE)


def values(connection: Connection) -> Finding:
    """Check that every value has the type of its column."""
    faults = value_faults(connection)
    if not faults:
        return fine("values", "Every value has the type of its column.")
    columns = sorted(
        f"{table}.{column}" for table, rows in faults.items() for column in set[str]().union(*rows.values())
    )
    number = counted(sum(map(len, faults.values())), "row")
    message = f"Invalid values in {number}: {first_names(columns)}."
    if not value_repair.has_lost_values(connection, faults):
        return fixable("values", message)
    return problem("values", message, RESTORE)


def integrity(connection: Connection) -> Finding:
    """Run SQLite's integrity check."""
    lines = inspection.damage(connection)
    if not lines:
        return fine("integrity", "SQLite finds no damage in the file.")
    if all(map(inspection.is_of_index, lines)):
        return fixable("integrity", f"Indexes do not match their tables in {counted(len(lines), 'place')}.")
    return problem(
        "integrity", f"The file is damaged in {counted(len(lines), 'place')}; the first is: {lines[0]}.", RESTORE
    )
