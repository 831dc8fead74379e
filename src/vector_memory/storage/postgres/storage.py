"""The storage engine over a PostgreSQL schema: implements `storage.base` with the modules of this package."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vector_memory.domain import Chunk
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.transactions import PostgresReader, PostgresWriter
from vector_memory.storage.records import UnitWords

# postings imports numpy, which commands that only list memories do not need.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.base


class PostgresStorage:
    """`storage.base.Storage` over an open database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        with self._database.read() as connection:
            yield PostgresReader(connection)

    @contextmanager
    def write(self) -> Iterator[PostgresWriter]:
        with self._database.write() as connection:
            yield PostgresWriter(connection)

    def version(self) -> int:
        return self._database.version()

    def require_time_to_write(self) -> None:
        self._database.require_time_to_write()

    def prepare_words(self, texts: Sequence[str]) -> UnitWords:
        from vector_memory.storage.postings import indexed

        return indexed(texts)

    def finish_upgrade(self, cut: Callable[[str], Sequence[Chunk]]) -> None:
        """Index words by earlier rules again. There are no documents without chunks, so `cut` is not needed."""
        from vector_memory.storage import reindexing

        del cut
        reindexing.index_again(self.read, self.write)

    def purge_deleted(self) -> bool:
        """Return True: the server reuses the place of deleted rows when it has vacuumed their table."""
        return True

    def close(self) -> None:
        self._database.close()
