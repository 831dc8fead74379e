"""Checks of what is in the file: its structure, and whether all that was made from the text agrees with it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseLockError, EmbeddingUnavailableError, VectorMemoryError
from vector_memory.maintenance.doctor.report import Finding, State, counted, fine, fixable, problem, warning
from vector_memory.storage.sqlite import (
    index_faults,
    inspection,
    memories,
    vectors,
)
from vector_memory.storage.sqlite import reembedding as spare
from vector_memory.storage.sqlite import (
    schema_repair as remaking,
)
from vector_memory.storage.sqlite import (
    value_repair as mending,
)
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.guards import translated_errors
from vector_memory.storage.sqlite.index_faults import TextFaults
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import expected_schema
from vector_memory.storage.sqlite.schema_check import schema_faults
from vector_memory.storage.sqlite.tags import unknown_tags
from vector_memory.storage.sqlite.value_faults import value_faults

NOT_PRESENT = {
    FileKind.EMPTY: warning(
        "schema", "The file is empty: no memory has been stored in it.", "The server fills it when it starts."
    ),
    FileKind.ORIGINAL: warning(
        "schema",
        "The file was written by the original server and has not been taken over yet.",
        "The server does that when it starts, and keeps a copy with the name's ending .before-upgrade.",
    ),
    FileKind.OLDER: warning(
        "schema", "The file was written by an earlier release.", "The server brings it up to date when it starts."
    ),
    FileKind.NEWER: problem(
        "schema", "The file was written by a newer release of vector-memory.", "Upgrade vector-memory to open it."
    ),
    FileKind.FOREIGN: problem(
        "schema", "The file is an SQLite database of another program.", "Name another file with --database-path."
    ),
}

REMADE = {"vectors", "keywords", "tags"}
"""Checks of what --fix makes again as a whole."""

NAMED = 5
"""So many memories are named by their ids."""

RESTORE = "End all servers, then put the latest backup in its place: `vector-memory restore SOURCE --overwrite`."


def contents_findings(path: Path, model: EmbeddingModel) -> list[Finding]:
    """Return what is to be said about the file, which is not changed. Of a damaged one not much is looked at."""
    if not path.is_file():
        return [
            problem(
                "file",
                f"There is no memory at {path}.",
                "The server makes it when it starts. If you expected one, check --database-path.",
            )
        ]
    try:
        return inspection.inspect(path, lambda connection: list(_findings(connection, model)))
    except VectorMemoryError as error:
        return [problem("file", f"The file cannot be read. {error}", RESTORE)]


def _findings(connection: Connection, model: EmbeddingModel) -> Iterator[Finding]:
    kind = inspection.file_kind(connection)
    length = inspection.database_bytes(connection)
    yield fine("file", f"The file can be read; it is {length / 1e6:,.1f} MB long.")
    yield NOT_PRESENT.get(kind) or fine("schema", "The file is of this release.")
    structure = integrity(connection)
    yield structure
    if kind == FileKind.PRESENT and structure.state == State.OK:
        yield (found := tables(connection))
        if found.state == State.OK:
            yield (found := values(connection))
        if found.state == State.OK:
            yield from _agreements(connection, model)


def _agreements(connection: Connection, model: EmbeddingModel) -> Iterator[Finding]:
    """Compare what is in the tables, whose values can be relied on."""
    faults = TextFaults()

    def compared() -> Iterator[Finding]:
        nonlocal faults
        faults = index_faults.text_faults(connection)
        yield from texts(connection, faults)

    yield from checked("orphans", lambda: [orphans(connection)])
    yield from checked("text", compared)
    yield from checked("vectors", lambda: filed_vectors(connection, faults.text))
    yield from checked("keywords", lambda: [keywords(connection, faults.text | faults.chunks)])
    yield from checked("tags", lambda: [tags(connection)])
    yield from checked("unindexed", lambda: [unindexed(connection)])
    yield from checked("fingerprint", lambda: [fingerprint(connection, model)])
    yield from checked("reembedding", lambda: reembedding(connection))


def checked(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what a check finds; one that breaks off because of what is in the file has found a problem."""
    try:
        with translated_errors():
            return list(check())
    except DatabaseLockError:
        raise
    except VectorMemoryError as error:
        message = f"This could not be checked. {error}"
        return [fixable(name, message) if name in REMADE else problem(name, message, RESTORE)]


def tables(connection: Connection) -> Finding:
    """Check that tables, indexes and triggers are those that the migrations make."""
    faults = schema_faults(connection, expected_schema())
    if not faults and not remaking.is_record_wrong(connection):
        return fine("tables", "The tables are those of this release.")
    names = sorted(faults.wrong | faults.triggers)
    said = f"Tables, indexes or triggers are missing, altered or foreign: {shortened(names)}." if names else ""
    spare = "The tables for another model's vectors are damaged." if faults.spare else ""
    message = " ".join(filter(None, [said, spare])) or "The record of the file's schema is damaged."
    if remaking.can_be_mended(connection, faults):
        return fixable("tables", message)
    return problem("tables", message, RESTORE)


def values(connection: Connection) -> Finding:
    """Check that every value is of the type of its column."""
    faults = value_faults(connection)
    if not faults:
        return fine("values", "Every value is of the type of its column.")
    places = sorted(
        f"{table}.{column}" for table, rows in faults.items() for column in set[str]().union(*rows.values())
    )
    number = counted(sum(map(len, faults.values())), "row")
    message = f"Values that cannot be used are in {number}: {shortened(places)}."
    if not mending.lost_values(connection, faults):
        return fixable("values", message)
    return problem("values", message, RESTORE)


def shortened(names: Sequence[str]) -> str:
    """Name a few of many."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def integrity(connection: Connection) -> Finding:
    """Ask SQLite whether the file is whole."""
    lines = inspection.damage(connection)
    if not lines:
        return fine("integrity", "The file is whole, as far as SQLite can tell.")
    if all(map(inspection.is_of_index, lines)):
        return fixable("integrity", f"Indexes do not fit their tables in {counted(len(lines), 'place')}.")
    return problem("integrity", f"The file is damaged in {counted(len(lines), 'place')}; one is: {lines[0]}.", RESTORE)


def orphans(connection: Connection) -> Finding:
    """Check that whatever belongs to something has it."""
    found = inspection.count_orphans(connection)
    tables = ", ".join(f"{number:,} in {table}" for table, number in sorted(found.items()))
    return agreement(
        "orphans", "Every chunk and passage has its memory.", tables and f"Rows belong to what is not there: {tables}."
    )


def texts(connection: Connection, faults: TextFaults) -> Iterator[Finding]:
    """Say whether texts agree with their checksums, and chunks and passages with the texts."""
    if faults.text:
        yield problem("text", f"The text of {named(faults.text)} is not what was stored.", RESTORE)
    else:
        total = inspection.count_memories(connection)
        yield fine("text", f"The text of {counted(total, 'memory', 'memories')} is what was stored.")
    yield agreement(
        "chunks",
        "Every chunk is a piece of its memory's text.",
        faults.chunks and f"Chunks of {named(faults.chunks)} are missing, or are no pieces of the text.",
    )
    yield agreement(
        "passages",
        "Every passage is a piece of its memory's text.",
        faults.passages and f"Passages of {named(faults.passages)} are missing, or are no pieces of the text.",
    )


def filed_vectors(connection: Connection, damaged: Collection[int]) -> Iterator[Finding]:
    """Check that each passage has a vector and each vector a passage, and that vectors are filed rightly.

    Memories whose text is damaged themselves are left aside: nothing is made of them.
    """
    faults = index_faults.vector_faults(connection)
    lacking, misfiled = faults.missing.difference(damaged), faults.misfiled.difference(damaged)
    missing = f"Passages of {named(lacking)} have no usable vector." if lacking else ""
    strays = f"There are vectors of no passage: {len(faults.strays):,}." if faults.strays else ""
    unreadable = f"Not readable: {', '.join(faults.unreadable)}." if faults.unreadable else ""
    yield agreement(
        "vectors",
        "Every passage has a vector, and every vector a passage.",
        " ".join(filter(None, [missing, strays, unreadable])),
    )
    yield agreement(
        "index",
        "Vectors are filed under the session, kind, agent, iteration and task of their memory.",
        misfiled and f"Vectors of {named(misfiled)} are filed under another session, agent or kind.",
    )


def keywords(connection: Connection, damaged: Collection[int]) -> Finding:
    """Check that the keyword index holds the words of the text, of memories that are not damaged themselves."""
    right = index_faults.are_keywords_right(connection, damaged)
    return agreement(
        "keywords",
        "The keyword index says what the text says.",
        "" if right else "The keyword index says something else than the text.",
    )


def tags(connection: Connection) -> Finding:
    """Check that the vocabulary has all tags that stand on tagged memories."""
    unknown = unknown_tags(connection)
    return agreement(
        "tags",
        "Every tag of a tagged memory is canonical.",
        unknown and f"{counted(len(unknown), 'tag')} of tagged memories {'is' if len(unknown) == 1 else 'are'} not.",
    )


def unindexed(connection: Connection) -> Finding:
    """Say whether there are memories that cannot be found by meaning yet."""
    missing = memories.count_unindexed(connection)
    if not missing:
        return fine("unindexed", "Every memory can be found by meaning.")
    have = "has" if missing == 1 else "have"
    message = f"{counted(missing, 'memory', 'memories')} {have} no vectors yet, and cannot be found by meaning."
    return fixable("unindexed", message, State.WARNING)


def fingerprint(connection: Connection, model: EmbeddingModel) -> Finding:
    """Check that the file's vectors and those of the model can be compared."""
    present = vectors.fingerprint_of(connection)
    try:
        vectors.require_same_fingerprint(connection, model.fingerprint)
    except EmbeddingUnavailableError as error:
        if model.is_ready:
            return problem("fingerprint", str(error))
        return fine("fingerprint", "Without a model there is nothing to compare the vectors with.")
    made = f"were made by {vectors.describe(present)}, which is the model here" if present else "are still to be made"
    return fine("fingerprint", f"The vectors {made}.")


def reembedding(connection: Connection) -> Iterator[Finding]:
    """Say whether a change of the model was not brought to its end, or is going on."""
    if spare.exists(connection):
        made_for = spare.unfinished(connection)
        message = (
            f"The vectors are being made anew by {vectors.describe(made_for)}, or that was interrupted."
            if made_for
            else "Vectors of an earlier model have not all been erased yet."
        )
        yield warning("reembedding", message, "If no `vector-memory reembed` is running, run it again.")


def agreement(name: str, good: str, bad: object) -> Finding:
    """Return a finding that is fine unless there is something bad to say, which --fix can mend."""
    return fixable(name, str(bad)) if bad else fine(name, good)


def named(ids: Collection[int]) -> str:
    """Name memories by their ids, a few of them if they are many."""
    shown = ", ".join(str(number) for number in sorted(ids)[:NAMED])
    if len(ids) == 1:
        return f"memory {shown}"
    return f"{len(ids):,} memories ({shown}{', ...' if len(ids) > NAMED else ''})"
