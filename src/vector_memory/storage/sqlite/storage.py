"""The storage engine over one SQLite file."""

from collections.abc import Iterator
from contextlib import contextmanager

from vector_memory.storage.base import Storage
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter

# ruff: noqa: D102 - the methods are described in storage.base


class SqliteStorage(Storage):
    """A memory in a file."""

    _database: Database

    @contextmanager
    def read(self) -> Iterator[SqliteReader]:
        with self._database.read() as connection:
            yield SqliteReader(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteWriter]:
        with self._database.write() as connection:
            yield SqliteWriter(connection)

    def purge_deleted(self) -> bool:
        return self._database.purge_deleted()
