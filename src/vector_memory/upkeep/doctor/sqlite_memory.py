"""A memory in a file, as the doctor sees it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import VectorMemoryError
from vector_memory.settings import Settings
from vector_memory.storage.base import EXPORT_AND_IMPORT, WholeMemory
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of
from vector_memory.storage.sqlite import inspection
from vector_memory.storage.sqlite.connecting import unerased
from vector_memory.storage.sqlite.copying import replace_database
from vector_memory.storage.sqlite.database import Connection, Database, SqliteStorage
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import altered_in, recorded_version
from vector_memory.storage.sqlite.rows import translated_errors
from vector_memory.storage.sqlite.salvage import Salvaged, misfiled_memories, salvage, unsound_tables
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.upkeep.backfill import Progress
from vector_memory.upkeep.backup import unused_name
from vector_memory.upkeep.doctor import report
from vector_memory.upkeep.doctor.agreement import Check, agreements, compute_missing, first_fault
from vector_memory.upkeep.doctor.place import place_findings, remove_access_of_others, sqlite_findings
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.links import links_of

NOT_PRESENT = {
    FileKind.EMPTY: report.warning("schema", "The file is empty.", "The server creates the tables when it starts."),
    FileKind.ORIGINAL: report.warning(
        "schema",
        "The file was written by the original server and has not been upgraded yet.",
        "The server upgrades it when it starts, and keeps a copy whose name ends in .before-upgrade.",
    ),
    FileKind.DEVELOPMENT: report.problem("schema", "The file was written by a development version.", EXPORT_AND_IMPORT),
    FileKind.NEWER: report.problem(
        "schema", "The file was written by a newer release of vector-memory.", "Upgrade vector-memory to open it."
    ),
    FileKind.FOREIGN: report.problem(
        "schema", "The file is an SQLite database of another program.", "Choose another file with --database-path."
    ),
}

RESTORE_COMMAND = "`vector-memory restore SOURCE --overwrite`"

ADVICE = report.Advice(
    "Stop all servers, then run `vector-memory doctor --fix`: it copies what can be read into a new file, and keeps "
    f"the damaged one. Or restore the latest backup: {RESTORE_COMMAND}.",
    f"Stop all servers, then restore the latest backup: {RESTORE_COMMAND}.",
)

WITHOUT_COPY = {"permissions", "unindexed", "outdated", "erasure"}
"""What --fix repairs while servers run; everything else is damage."""

# ruff: noqa: D102 - the methods are described in `ExaminedMemory`


class SqliteMemory:
    """`ExaminedMemory` over a file. This process must not have it open."""

    def __init__(self, path: Path, settings: Settings, model: EmbeddingModel) -> None:
        self._path = path
        self._settings = settings
        self._model = model

    def engine(self) -> Iterator[report.Finding]:
        return sqlite_findings()

    def place(self) -> Iterator[report.Finding]:
        return place_findings(self._path)

    def contents(self, *, deep: bool) -> list[report.Finding]:
        """Return the findings about the file without changing it. A damaged file gets only a few checks."""
        if not self._path.is_file():
            advice = "The server creates it when it starts. If you expected one, check --database-path."
            return [report.problem("file", f"There is no memory at {self._path}.", advice)]
        indexer = Indexer(self._model, self._settings)
        try:
            return inspection.inspect(self._path, lambda connection: list(_findings(connection, indexer, deep=deep)))
        except VectorMemoryError as error:
            return [report.problem("file", f"The file cannot be read. {error}", ADVICE.restore)]

    def repair(self, wrong: set[str], on_progress: Progress | None) -> list[str]:
        done = []
        if "permissions" in wrong:
            closed = remove_access_of_others(self._path)
            done.append(f"Removed other users' access to {counted(closed, 'file or folder', 'files and folders')}.")
        indexer = Indexer(self._model, self._settings, links_of)
        if wrong - WITHOUT_COPY:
            done += copied(*repair_by_copying(self._path, self._settings.embedding_dim, indexer, wrong))
        if wrong - {"permissions"}:
            with closing(Database(self._path, dimensions=self._settings.embedding_dim)) as database:
                done += compute_missing(SqliteStorage(database), self._model, indexer, wrong, on_progress)
        return done


def repair_by_copying(path: Path, dimensions: int, indexer: Indexer, wrong: set[str]) -> tuple[Salvaged, Path]:
    """Replace a damaged memory with its readable contents; return these, and the file that keeps the old bytes.

    `wrong`: the names of the findings. If some vectors are wrong and there is a model, all are recomputed.

    Raises DatabaseLockError if another process has it open, DatabaseError if nothing can be read; then it is unchanged.
    """
    kept = unused_name(path, "repair")
    salvaged = Salvaged()

    def judge(whole: WholeMemory) -> WholeMemory | None:
        kept = replace(whole, passages=None) if "vectors" in wrong and indexer.is_ready else whole
        return None if first_fault(kept, indexer) else kept

    with draft_of(kept, Rules(is_database=True)) as draft:

        def new(old: Path) -> Path:
            nonlocal salvaged
            salvaged = inspection.inspect(old, lambda source: salvage(source, draft.path, dimensions, judge))
            log_index_of(old).unlink(missing_ok=True)
            return draft.path

        replace_database(path, kept, new)
    path.chmod(0o600)
    return salvaged, kept


def copied(salvaged: Salvaged, kept: Path) -> Iterator[str]:
    """Say what a repair by copying has kept and lost."""
    number = counted(salvaged.copied, "memory", "memories")
    yield f"Copied {number} into a new file. The damaged one is kept as {kept.name}."
    if salvaged.lost:
        yield f"Lost, because the file does not contain it completely: {report.named(salvaged.lost)}."


def _findings(connection: Connection, indexer: Indexer, *, deep: bool) -> Iterator[report.Finding]:
    kind = inspection.file_kind(connection)
    length, _ = inspection.sizes(connection)
    yield report.fine("file", f"The file is readable; its size is {length / 1e6:,.1f} MB.")
    yield NOT_PRESENT.get(kind) or report.fine("schema", "The file has the format of this release.")
    yield (found := integrity(connection, kind))
    if kind == FileKind.PRESENT and found.state == report.Level.OK:
        yield (found := tables(connection))
        if found.state == report.Level.OK:
            reader = SqliteReader(connection)
            own: dict[str, Check] = {
                "erasure": lambda: [erasure(connection)],
                "references": lambda: [
                    report.checked("references", report.first_names(unsound_tables(connection)), ADVICE)
                ],
            }
            if deep:
                own["index"] = lambda: [report.checked("index", misfiled_memories(connection), ADVICE)]
            yield from agreements(reader, indexer, translated_errors, ADVICE, deep=deep, other=own)


def erasure(connection: Connection) -> report.Finding:
    """Check that no deleted bytes wait to be erased. Opening the file erases them, which is what --fix does."""
    if unerased(connection) is None:
        return report.fine("erasure", "All deleted bytes were erased.")
    message = "Deleted bytes may still be in the write-ahead log: something was reading when they were deleted."
    advice = "End long-running readers (backups, other programs), or close all clients, then run `doctor --fix`."
    return report.Finding("erasure", report.Level.WARNING, message, advice, fixable=True)


def tables(connection: Connection) -> report.Finding:
    """Check that tables, indexes and triggers are those of this release."""
    names = sorted(altered_in(connection))
    if not names and recorded_version(connection) is None:
        names = ["schema_migrations"]
    return report.checked("tables", report.first_names(names), ADVICE)


def integrity(connection: Connection, kind: FileKind) -> report.Finding:
    """Run SQLite's integrity check, which compares values with the types of their columns too."""
    lines = inspection.damage(connection)
    found = report.checked(
        "integrity", f"{counted(len(lines), 'place')}; the first is: {lines[0]}" if lines else "", ADVICE
    )
    return found if kind == FileKind.PRESENT else replace(found, fixable=False)
