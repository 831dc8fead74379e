"""The doctor: checks an installation and a file, and rebuilds what can be derived from the text."""

from pathlib import Path

from vector_memory.domain import utc_now
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError, VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress
from vector_memory.maintenance.doctor.contents import contents_findings
from vector_memory.maintenance.doctor.installation import installation_findings
from vector_memory.maintenance.doctor.place import close_to_others, place_findings
from vector_memory.maintenance.doctor.report import Report
from vector_memory.settings import Settings
from vector_memory.storage.base import Storage
from vector_memory.storage.sqlite import keywords, value_repair
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.schema_repair import rebuild_indexes, repair_schema
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.tags import restore_tags
from vector_memory.storage.sqlite.value_faults import value_faults
from vector_memory.tagged.vocabulary import Vocabulary

ROUNDS = 4
"""Maximum number of rounds of repair: tables, values, derived data, and problems that these reveal."""

INDEX_CHECKS = {"chunks", "passages", "vectors", "index"}


class Doctor:
    """Examines the memory at `path`. Other processes may be using it, but this process must not have it open."""

    def __init__(self, path: Path, settings: Settings, model: EmbeddingModel) -> None:
        self._path = path
        self._settings = settings
        self._model = model

    def examine(self) -> Report:
        """Run all checks. Nothing is changed or created."""
        installation = list(installation_findings(self._model, self._settings))
        place = list(place_findings(self._path))
        contents = contents_findings(self._path, self._model)
        return Report(str(self._path), {"installation": installation, "place": place, "contents": contents})

    def repair(self, report: Report, on_progress: Progress | None = None) -> list[str]:
        """Repair the report's fixable findings; return a sentence for each repair.

        A repair may reveal further problems, which need another report: see `repair_all`. Texts are never changed.
        Repairs that need the model are skipped if there is none.
        """
        wrong = report.fixable()
        done = []
        if "permissions" in wrong:
            closed = close_to_others(self._path)
            done.append(f"Removed other users' access to {counted(closed, 'file or folder', 'files and folders')}.")
        if "integrity" in wrong:
            rebuild_indexes(self._path)
            return [*done, "Rebuilt the indexes."]
        if "tables" in wrong:
            if repair_schema(self._path, self._settings.embedding_dim):
                done.append("Restored tables, indexes and triggers.")
            return done
        if wrong - {"permissions"}:
            database = Database(self._path, dimensions=self._settings.embedding_dim)
            try:
                done += self._repair_contents(database, wrong, on_progress)
            finally:
                database.close()
        return done

    def repair_all(self, report: Report, on_progress: Progress | None = None) -> tuple[Report, list[str]]:
        """Repair and examine until nothing more can be repaired; return the last report and the repairs.

        Tables are repaired before their values, and values before the checks that compare them.
        """
        done: list[str] = []
        for _ in range(ROUNDS):
            if not report.fixable():
                break
            try:
                step = self.repair(report, on_progress)
            except VectorMemoryError as error:
                done.append(f"The repair failed: {error}")
                break
            done += step
            report = self.examine()
            if not step:
                break
        return report, done

    def _repair_contents(self, database: Database, wrong: set[str], on_progress: Progress | None) -> list[str]:
        done = []
        with database.write() as connection:
            if "values" in wrong:
                number = value_repair.repair_values(connection, value_faults(connection))
                return [f"Repaired or removed {counted(number, 'row')} with invalid values."]
        indexer = Indexer(self._model, self._settings)
        storage = SqliteStorage(database)
        usable = is_model_usable(storage, indexer)
        with database.write() as connection:
            # First, because removing rows also removes their words.
            if "keywords" in wrong:
                keywords.rebuild(connection)
                done.append("Rebuilt the keyword index.")
            if "orphans" in wrong:
                number = value_repair.remove_orphans(connection)
                done.append(f"Removed {counted(number, 'orphaned row')}.")
            if "tags" in wrong:
                done.append(f"Restored {counted(restore_tags(connection, utc_now()), 'canonical tag')}.")
            if usable and wrong & (INDEX_CHECKS | {"orphans"}):
                value_repair.remove_faulty_index_data(connection)
        if usable and wrong & (INDEX_CHECKS | {"orphans", "unindexed"}):
            result = Backfill(storage, indexer, Vocabulary(storage, self._model)).run(on_progress)
            indexed = counted(result.memories_processed, "memory", "memories")
            done.append(f"Computed the vectors of {indexed}.")
        return done


def is_model_usable(storage: Storage, indexer: Indexer) -> bool:
    """Return whether there is a model whose vectors are comparable with those of the file."""
    try:
        with storage.read() as reader:
            reader.require_comparable(indexer.fingerprint)
    except EmbeddingUnavailableError:
        return False
    return True
