"""The doctor: looks at an installation and a file, and mends what can be made again from the text."""

from pathlib import Path

from vector_memory.domain import utc_now
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError, VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress
from vector_memory.maintenance.doctor.contents import contents_findings
from vector_memory.maintenance.doctor.installation import installation_findings
from vector_memory.maintenance.doctor.place import close_to_others, place_findings
from vector_memory.maintenance.doctor.report import Report, counted
from vector_memory.settings import Settings
from vector_memory.storage.base import Storage
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite import value_repair as mending
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.schema_repair import make_indexes_again, mend_schema
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.tags import restore_tags
from vector_memory.storage.sqlite.value_faults import value_faults
from vector_memory.tagged.vocabulary import Vocabulary

ROUNDS = 4
"""Tables, values, what they say; and what that brings up."""

INDEX = {"chunks", "passages", "vectors", "index"}


class Doctor:
    """Examines the memory at `path`. Servers may use it meanwhile, but not in this process."""

    def __init__(self, path: Path, settings: Settings, model: EmbeddingModel) -> None:
        self._path = path
        self._settings = settings
        self._model = model

    def examine(self) -> Report:
        """Look at everything. Nothing is changed, and nothing is made."""
        installation = list(installation_findings(self._model, self._settings))
        place = list(place_findings(self._path))
        contents = contents_findings(self._path, self._model)
        return Report(str(self._path), {"installation": installation, "place": place, "contents": contents})

    def mend(self, report: Report, on_progress: Progress | None = None) -> list[str]:
        """Make again what the report found wrong and the text allows; return what was done, a sentence each.

        What is found only after that needs another report: see `mend_all`. Texts are never touched. What needs the
        model stays as it is if there is none.
        """
        wrong = report.fixable()
        done = []
        if "permissions" in wrong:
            closed = close_to_others(self._path)
            done.append(f"Closed {counted(closed, 'file or folder', 'files and folders')} to other users.")
        if "integrity" in wrong:
            make_indexes_again(self._path)
            return [*done, "Made the indexes again."]
        if "tables" in wrong:
            if mend_schema(self._path, self._settings.embedding_dim):
                done.append("Made tables, indexes and triggers as they should be.")
            return done
        if wrong - {"permissions"}:
            database = Database(self._path, dimensions=self._settings.embedding_dim)
            try:
                done += self._mend_contents(database, wrong, on_progress)
            finally:
                database.close()
        return done

    def mend_all(self, report: Report, on_progress: Progress | None = None) -> tuple[Report, list[str]]:
        """Mend, and examine again, until nothing more can be mended; return the last report and what was done.

        Tables are mended before their values, and these before what they say about each other is looked at.
        """
        done: list[str] = []
        for _ in range(ROUNDS):
            if not report.fixable():
                break
            try:
                step = self.mend(report, on_progress)
            except VectorMemoryError as error:
                done.append(f"Mending broke off: {error}")
                break
            done += step
            report = self.examine()
            if not step:
                break
        return report, done

    def _mend_contents(self, database: Database, wrong: set[str], on_progress: Progress | None) -> list[str]:
        done = []
        with database.write() as connection:
            if "values" in wrong:
                number = mending.mend_values(connection, value_faults(connection))
                return [f"Mended or removed {counted(number, 'row')} with values that cannot be used."]
        indexer = Indexer(self._model, self._settings)
        storage = SqliteStorage(database)
        usable = is_model_usable(storage, indexer)
        with database.write() as connection:
            # First, because removing rows takes their words out of it too.
            if "keywords" in wrong:
                keywords.rebuild(connection)
                done.append("Made the keyword index again.")
            if "orphans" in wrong:
                number = mending.remove_orphans(connection)
                done.append(f"Cleared away {counted(number, 'row')} that belonged to nothing.")
            if "tags" in wrong:
                done.append(f"Made {counted(restore_tags(connection, utc_now()), 'tag')} canonical again.")
            if usable and wrong & (INDEX | {"orphans"}):
                mending.withdraw_faulty(connection)
        if usable and wrong & (INDEX | {"orphans", "unindexed"}):
            result = Backfill(storage, indexer, Vocabulary(storage, self._model)).run(on_progress)
            made = counted(result.memories_processed, "memory", "memories")
            done.append(f"Made the vectors of {made}.")
        return done


def is_model_usable(storage: Storage, indexer: Indexer) -> bool:
    """Tell whether there is a model whose vectors may join those of the file."""
    try:
        with storage.read() as reader:
            reader.require_comparable(indexer.fingerprint)
    except EmbeddingUnavailableError:
        return False
    return True
