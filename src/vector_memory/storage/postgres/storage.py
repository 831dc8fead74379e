"""The storage engine over a PostgreSQL schema."""

from collections.abc import Iterator
from contextlib import contextmanager

from vector_memory.storage.base import Storage
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.transactions import PostgresReader, PostgresWriter

# ruff: noqa: D102 - the methods are described in storage.base

# A commit waits for standbys if it has written something, and then for all before it. A standby writes nothing.
CONFIRM = """
select pg_logical_emit_message(true, 'vector-memory', '')
where current_setting('synchronous_standby_names') <> '' and not pg_is_in_recovery()
"""


class PostgresStorage(Storage):
    """A memory in a schema."""

    _database: PostgresDatabase

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        with self._database.read() as connection:
            yield PostgresReader(connection)

    @contextmanager
    def write(self) -> Iterator[PostgresWriter]:
        with self._database.write() as connection:
            yield PostgresWriter(connection)

    def confirm(self) -> None:
        with self._database.confirming() as connection:
            connection.later(CONFIRM)

    def purge_deleted(self) -> bool:
        """Return True: the server reuses the place of deleted rows when it has vacuumed their table."""
        return True
