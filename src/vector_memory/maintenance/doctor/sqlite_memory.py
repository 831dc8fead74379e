"""A memory in a file, as the doctor sees it."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Progress
from vector_memory.maintenance.backup import unused_name
from vector_memory.maintenance.doctor.agreement import Check, agreements, copied_fields, orphans
from vector_memory.maintenance.doctor.installation import sqlite_findings
from vector_memory.maintenance.doctor.place import place_findings, remove_access_of_others
from vector_memory.maintenance.doctor.repairs import Repairs
from vector_memory.maintenance.doctor.report import Finding, Level, fine, first_names, named, not_read, problem, warning
from vector_memory.search.succession import links_of
from vector_memory.settings import Settings
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of
from vector_memory.storage.maintenance_api import EXPORT_AND_IMPORT
from vector_memory.storage.sqlite import inspection, references
from vector_memory.storage.sqlite.checkpointer import unerased
from vector_memory.storage.sqlite.copying import replace_database
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import expected_schema, is_record_wrong
from vector_memory.storage.sqlite.salvage import Salvaged, has_texts, invalid_columns, salvage
from vector_memory.storage.sqlite.schema_check import schema_faults
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.time_limit import translated_errors
from vector_memory.storage.sqlite.transactions import SqliteReader

NOT_PRESENT = {
    FileKind.EMPTY: warning("schema", "The file is empty.", "The server creates the tables when it starts."),
    FileKind.ORIGINAL: warning(
        "schema",
        "The file was written by the original server and has not been upgraded yet.",
        "The server upgrades it when it starts, and keeps a copy whose name ends in .before-upgrade.",
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

COPIED = {"integrity", "tables", "values", "reading"}
"""Checks whose faults a copy of what can be read repairs."""

COPY = (
    "Stop all servers, then run `vector-memory doctor --fix`: it copies what can be read into a new file, and keeps "
    "the damaged one. Or restore the latest backup: `vector-memory restore SOURCE --overwrite`."
)

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
            closed = remove_access_of_others(self._path)
            done.append(f"Removed other users' access to {counted(closed, 'file or folder', 'files and folders')}.")
        if wrong & COPIED:
            return [*done, *copied(*repair_by_copying(self._path, self._settings.embedding_dim))]
        if wrong - {"permissions"}:
            with closing(Database(self._path, dimensions=self._settings.embedding_dim)) as database:
                done += self._repair_contents(database, wrong, on_progress)
        return done

    def _repair_contents(self, database: Database, wrong: set[str], on_progress: Progress | None) -> list[str]:
        if "orphans" in wrong:
            with database.write() as connection:
                return [f"Removed {counted(references.delete_orphans(connection), 'orphaned row')}."]
        with database.read() as connection:
            misfiled = references.misfiled_memories(connection)
        indexer = Indexer(self._model, self._settings, links_of)
        repairs = Repairs(SqliteStorage(database), self._model, indexer, translated_errors)
        return repairs.run(wrong, misfiled, on_progress)


def repair_by_copying(path: Path, dimensions: int) -> tuple[Salvaged, Path]:
    """Replace a damaged memory by what can be read of it; return what that is, and the file that keeps the old bytes.

    Raises DatabaseLockError if another process has it open, DatabaseError if nothing can be read; then it is unchanged.
    """
    kept = unused_name(path, "repair")
    salvaged = Salvaged()
    with draft_of(kept, Rules(is_database=True)) as draft:

        def new(old: Path) -> Path:
            nonlocal salvaged
            salvaged = inspection.inspect(old, lambda connection: salvage(connection, draft.path, dimensions))
            log_index_of(old).unlink(missing_ok=True)
            return draft.path

        replace_database(path, kept, new)
    path.chmod(0o600)
    return salvaged, kept


def copied(salvaged: Salvaged, kept: Path) -> Iterator[str]:
    """Say what a repair by copying has kept, and what not."""
    number = counted(salvaged.copied, "memory", "memories")
    yield f"Copied {number} into a new file. The damaged one is kept as {kept.name}."
    if salvaged.lost:
        yield f"Lost, because the file does not contain it completely: {named(salvaged.lost)}."


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
    structure = integrity(connection, kind)
    yield structure
    if kind == FileKind.PRESENT and structure.state == Level.OK:
        yield (found := tables(connection))
        if found.state == Level.OK:
            yield (found := values(connection))
        if found.state == Level.OK:
            yield from _agreements(connection, indexer)


def _agreements(connection: Connection, indexer: Indexer) -> Iterator[Finding]:
    """Compare the contents of the tables, whose values are valid."""
    other: dict[str, Check] = {
        "orphans": lambda: [orphans(references.orphaned_rows(connection))],
        "index": lambda: [copied_fields(references.misfiled_memories(connection))],
        "erasure": lambda: [erasure(connection)],
    }
    yield from agreements(
        SqliteReader(connection), indexer, translated_errors, restore=RESTORE, unread=unread_file, other=other
    )


def erasure(connection: Connection) -> Finding:
    """Check that no deleted bytes wait to be erased. Opening the file erases them, which is what --fix does."""
    if unerased(connection) is None:
        return fine("erasure", "All deleted bytes were erased.")
    message = "Deleted bytes may still be in the write-ahead log: something was reading when they were deleted."
    advice = "End long-running readers (backups, other programs), or close all clients, then run `doctor --fix`."
    return Finding("erasure", Level.WARNING, message, advice, fixable=True)


def tables(connection: Connection) -> Finding:
    """Check that tables, indexes and triggers are those of this release, and that sqlite-vec can read its own."""
    faults = schema_faults(connection, expected_schema())
    names = sorted(faults.wrong | faults.triggers)
    if names:
        message = f"Tables, indexes or triggers are missing, altered or unknown: {first_names(names)}."
    elif faults.spare:
        message = "The tables for another model's vectors are damaged."
    elif is_record_wrong(connection):
        message = "The record of the file's schema is damaged."
    elif unreadable := references.unreadable_tables(connection):
        message = f"Vectors cannot be read: {', '.join(unreadable)}."
    else:
        return fine("tables", "The tables match this release.")
    return copyable("tables", message) if has_texts(connection) else problem("tables", message, RESTORE)


def values(connection: Connection) -> Finding:
    """Check that every value is one that its column can contain; SQLite itself checks the types."""
    try:
        with translated_errors():
            found = invalid_columns(connection)
    except DatabaseError as error:
        return unread_file({"values": str(error)})
    if not found:
        return fine("values", "Every value is one that its column can contain.")
    columns = first_names(sorted(found))
    return copyable("values", f"Invalid values in {counted(sum(found.values()), 'row')}: {columns}.")


def integrity(connection: Connection, kind: FileKind) -> Finding:
    """Run SQLite's integrity check, which compares values with the types of their columns too."""
    lines = inspection.damage(connection)
    if not lines:
        return fine("integrity", "SQLite finds no damage in the file.")
    message = f"The file is damaged in {counted(len(lines), 'place')}; the first is: {lines[0]}."
    if kind == FileKind.PRESENT and has_texts(connection):
        return copyable("integrity", message)
    return problem("integrity", message, RESTORE)


def copyable(name: str, message: str) -> Finding:
    """Return a finding that --fix repairs by copying what can be read."""
    return Finding(name, Level.PROBLEM, message, COPY, fixable=True)


def unread_file(failed: Mapping[str, str]) -> Finding:
    """Return the finding of checks that failed because of what is in the file."""
    return copyable("reading", not_read(failed))
