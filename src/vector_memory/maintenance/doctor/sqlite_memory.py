"""A memory in a file, as the doctor sees it."""

from collections.abc import Iterator
from pathlib import Path

from vector_memory.domain import utc_now
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Progress
from vector_memory.maintenance.doctor.contents import contents_findings
from vector_memory.maintenance.doctor.installation import sqlite_findings
from vector_memory.maintenance.doctor.place import close_to_others, place_findings
from vector_memory.maintenance.doctor.repairs import compute_vectors, is_model_usable
from vector_memory.maintenance.doctor.report import Finding
from vector_memory.settings import Settings
from vector_memory.storage.sqlite import keywords, value_repair
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.schema_repair import rebuild_indexes, repair_schema
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.tags import restore_tags
from vector_memory.storage.sqlite.value_faults import value_faults

INDEX_CHECKS = {"chunks", "passages", "vectors", "index"}

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
            done.append(compute_vectors(storage, indexer, self._model, on_progress))
        return done
