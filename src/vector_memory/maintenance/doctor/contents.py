"""Checks of the file's contents: its structure, and whether the derived data matches the text."""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseLockError, VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.doctor.agreement import (
    copied_fields,
    fingerprint,
    orphans,
    reembedding,
    tags,
    texts,
    unindexed,
    unknown_tags,
    words,
)
from vector_memory.maintenance.doctor.report import (
    Finding,
    State,
    agreement,
    fine,
    first_names,
    fixable,
    named,
    problem,
    warning,
)
from vector_memory.storage.maintenance_api import EXPORT_AND_IMPORT
from vector_memory.storage.sqlite import index_faults, inspection, schema_repair, value_repair
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.index_faults import TextFaults
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import expected_schema
from vector_memory.storage.sqlite.schema_check import schema_faults
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

REBUILT = {"vectors", "keywords", "tags"}
"""Checks of data that --fix rebuilds as a whole."""

RESTORE = "Stop all servers, then restore the latest backup: `vector-memory restore SOURCE --overwrite`."


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
    faults, reader = TextFaults(), SqliteReader(connection)

    def compared() -> Iterator[Finding]:
        nonlocal faults
        faults = index_faults.text_faults(connection)
        total = inspection.count_memories(connection)
        yield from texts(total, RESTORE, changed=faults.text, chunks=faults.chunks, passages=faults.passages)

    def indexed() -> Iterator[Finding]:
        damaged = faults.text | faults.chunks
        right = index_faults.is_keyword_index_correct(connection, damaged)
        yield words(right=right, outdated=reader.upkeep.count_outdated())

    yield from checked("orphans", lambda: [orphans(inspection.count_orphans(connection))])
    yield from checked("text", compared)
    yield from checked("vectors", lambda: filed_vectors(connection, faults.text))
    yield from checked("keywords", indexed)
    yield from checked("tags", lambda: [tags(unknown_tags(reader))])
    yield from checked("unindexed", lambda: [unindexed(reader)])
    yield from checked("fingerprint", lambda: [fingerprint(reader, indexer)])
    yield from checked("reembedding", lambda: reembedding(reader))


def checked(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of a check; a check that fails because of the file's contents has found a problem."""
    try:
        with translated_errors():
            return list(check())
    except DatabaseLockError:
        raise
    except VectorMemoryError as error:
        message = f"This check failed. {error}"
        return [fixable(name, message) if name in REBUILT else problem(name, message, RESTORE)]


def tables(connection: Connection) -> Finding:
    """Check that tables, indexes and triggers are those of this release."""
    faults = schema_faults(connection, expected_schema())
    if not faults and not schema_repair.is_record_wrong(connection):
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


def filed_vectors(connection: Connection, damaged: Collection[int]) -> Iterator[Finding]:
    """Check that every passage has one vector, and that vectors have the session, kind and so on of their memory.

    Memories whose text is damaged are skipped: nothing is derived from damaged text.
    """
    faults = index_faults.vector_faults(connection)
    lacking, misfiled = faults.missing.difference(damaged), faults.misfiled.difference(damaged)
    missing = f"Passages of {named(lacking)} have no valid vector." if lacking else ""
    strays = f"{counted(len(faults.strays), 'vector')} without a passage." if faults.strays else ""
    unreadable = f"Unreadable: {', '.join(faults.unreadable)}." if faults.unreadable else ""
    yield agreement(
        "vectors",
        "Every passage has a vector, and every vector a passage.",
        " ".join(filter(None, [missing, strays, unreadable])),
    )
    yield copied_fields(misfiled)
