"""A schema of a PostgreSQL database, over the connections of this process."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from vector_memory.errors import ClosedMemoryError, DatabaseError
from vector_memory.extras.postgres import beginnings, migrations
from vector_memory.extras.postgres.beginnings import Newest
from vector_memory.extras.postgres.connecting import ConnectionPool, connect
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import BUSY, LOCKED, UnreachableError, translated_errors
from vector_memory.extras.postgres.transactions import PostgresReader, PostgresWriter
from vector_memory.settings import DEFAULT_SCHEMA, MOST_CONNECTIONS
from vector_memory.storage.base import Storage
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS, WriteLock

logger = logging.getLogger(__name__)

WAIT_FOR_STANDBY = """
select from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database() limit 1
"""
# A commit that has written something waits for standbys, for all earlier commits too. A standby writes nothing.
CONFIRM = """
select pg_logical_emit_message(true, 'vector-memory', '')
where current_setting('synchronous_standby_names') <> '' and not pg_is_in_recovery()
"""
UNCONFIRMED_BEFORE = (
    "Another change waits for a standby of the database server, which does not confirm it. Nothing was changed: check "
    "the standbys, which `vector-memory doctor` lists, and repeat the call."
)


class PostgresDatabase:
    """An open schema. Safe to use from several threads; several processes can have the same schema open.

    A schema that does not exist is created, with the extension if that is missing. `dimensions`: the length of the
    vectors, for a new schema. `read_only`: nothing can be written, and the schema must exist. `connections`: the
    maximum that this process opens to the database, for all its memories. Raises DatabaseError if the server refuses
    the connection, or a newer release has changed the schema.

    A server that cannot be reached is no error: each `read` and `write` raises UnreachableError until it is back.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        dimensions: int,
        read_only: bool = False,
        connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.schema = schema
        self.read_only = read_only
        self._closed = False
        self._url = url
        self._write_lock = WriteLock(BUSY, self._why_locked)
        self._pool = ConnectionPool.of(url, connections)
        self._dimensions = dimensions
        self._newest = Newest()
        self._is_prepared = False
        self._preparing = threading.Lock()
        try:
            with translated_errors():
                self._prepare()
        except UnreachableError as error:
            logger.info("%s", error)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the schema, with everything committed. Never waits for writers."""
        opening = beginnings.reading(self.schema)
        with translated_errors(), self._reader() as connection, connection.reading(opening, self._newest):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction: committed at the end of the block, rolled back on any error.

        The first statement locks the memory, so that what the block reads is current when it writes. It raises
        DatabaseLockError if another process holds the lock for too long, CancelledCallError if the client cancels.
        """
        if self.read_only:
            raise DatabaseError("This memory is open for reading only: use a server without --read-only.")
        with (
            translated_errors(),
            self._write_lock.turn(LOCK_TIMEOUT_SECONDS) as turn,
            self._prepared_pool().connection() as connection,
            connection.writing(beginnings.writing(self.schema), turn.take, turn.seconds_left, self._newest),
        ):
            yield connection

    @contextmanager
    def confirming(self) -> Iterator[Connection]:
        """Yield a connection in a transaction whose end waits as a change's does. It does not wait for writers."""
        opening, seconds_left = beginnings.confirming(self.schema), self._write_lock.patience(LOCK_TIMEOUT_SECONDS)
        with translated_errors(), self._reader() as connection, connection.writing(opening, seconds_left=seconds_left):
            yield connection

    def version(self) -> int:
        """Return a number that changes with every commit of any process."""
        with translated_errors(), self._reader() as connection:
            return migrations.revision(connection, self.schema)

    def require_time_to_write(self) -> None:
        """Raise what `write` would raise at once; call this before a long preparation."""
        self._write_lock.require_time(LOCK_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close every connection after the running transaction, if any; waiting writers get ClosedMemoryError."""
        with self._write_lock.last_turn():
            if not self._closed:
                self._closed = True
                self._pool.close()

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        if self._closed:
            raise ClosedMemoryError
        with self._prepared_pool().connection() as connection:
            yield connection

    def _why_locked(self) -> str:
        """Return why writers wait so long. Asks on a separate connection, since all others may be waiting."""
        with suppress(DatabaseError), translated_errors(), closing(connect(self._url)) as connection:
            if connection.execute(WAIT_FOR_STANDBY).fetchall():
                return UNCONFIRMED_BEFORE
        return LOCKED

    def _prepared_pool(self) -> ConnectionPool:
        """Return the pool, after bringing the schema up to date unless that was done."""
        if not self._is_prepared:
            self._prepare()
        return self._pool

    def _prepare(self) -> None:
        with self._preparing:
            migrations.prepare(self._pool, self.schema, self._dimensions, read_only=self.read_only)
            self._is_prepared = True


# The storage engine over a PostgreSQL schema.


# ruff: noqa: D102 - the methods are described in storage.base


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
