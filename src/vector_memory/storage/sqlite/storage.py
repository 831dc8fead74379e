"""The storage engine over one SQLite file: implements `storage.base` with the modules of this package."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vector_memory.domain import Chunk
from vector_memory.storage.records import UnitWords
from vector_memory.storage.sqlite import upgrading
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter

# postings imports numpy, which commands that only list memories do not need.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.base


class SqliteStorage:
    """`storage.base.Storage` over an open database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    @contextmanager
    def read(self) -> Iterator[SqliteReader]:
        with self._database.read() as connection:
            yield SqliteReader(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteWriter]:
        with self._database.write() as connection:
            yield SqliteWriter(connection)

    def version(self) -> int:
        return self._database.version()

    def require_time_to_write(self) -> None:
        self._database.require_time_to_write()

    def prepare_words(self, texts: Sequence[str]) -> UnitWords:
        from vector_memory.storage.postings import indexed

        return indexed(texts)

    def finish_upgrade(self, cut: Callable[[str], Sequence[Chunk]]) -> None:
        upgrading.finish(self._database.read, self._database.write, cut)

    def purge_deleted(self) -> bool:
        return self._database.purge_deleted()

    def close(self) -> None:
        self._database.close()
