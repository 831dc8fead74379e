"""Translates errors of PostgreSQL into errors of this package.

Messages of the server and of psycopg quote SQL, stored text, and addresses, so they are not passed on.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as postgres

from vector_memory.errors import DatabaseError, DatabaseLockError, where
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postgres.connect_errors import UnreachableError

logger = logging.getLogger(__name__)

BUSY = (postgres.LockNotAvailable, postgres.DeadlockDetected)
"""Another transaction is in the way."""

LOCKED = (
    "Another transaction of the database server kept the memory locked for too long. Nothing was changed; repeating "
    "the call is safe."
)

LOST = (
    "The connection to the database server was lost: check that the server is running, and repeat the call. What a "
    "lost call has stored is not stored again."
)
CONFLICT = (
    "The standby ended the read, because it had to remove what was being read, as its primary had done. Repeat the "
    "call; if this happens often, raise `max_standby_streaming_delay` or turn on `hot_standby_feedback` there."
)
ALTERED = "The tables of the memory were altered: run `vector-memory doctor` to find out what is wrong."
UNUSABLE = "The database contains invalid data: run `vector-memory doctor` to find out what is wrong."

NO_NAMES = (
    "The pooler in front of the database server does not carry prepared statements: set `max_prepared_statements` of "
    "PgBouncer 1.22 or newer, or remove pooler=prepared from the database URL."
)

# The first class that fits.
FAILURES: tuple[tuple[tuple[type[psycopg.Error], ...], str], ...] = (
    (
        (postgres.DiskFull,),
        "The disk of the database server is full. Nothing was changed; free some space and repeat the call.",
    ),
    (
        (postgres.OutOfMemory, postgres.ConfigurationLimitExceeded, postgres.ProgramLimitExceeded),
        "The database server has reached a limit. Nothing was changed; check its memory and its settings.",
    ),
    (
        (postgres.ReadOnlySqlTransaction,),
        "The database server accepts no changes, because it is a standby or read-only. Nothing was changed.",
    ),
    (
        (postgres.InsufficientPrivilege,),
        "The role of this connection lacks a privilege. Nothing was changed; grant it, or use another role.",
    ),
    (
        (postgres.QueryCanceled,),
        "A statement took too long and was stopped; nothing was changed. Repeat the call when the server is less busy.",
    ),
    ((postgres.SerializationFailure,), CONFLICT),
    (
        (postgres.IdleInTransactionSessionTimeout, postgres.TransactionTimeout),
        "This process stopped for too long in the middle of a change. Nothing was changed: repeat the call.",
    ),
    ((postgres.InvalidSqlStatementName, postgres.DuplicatePreparedStatement), NO_NAMES),
    ((postgres.UntranslatableCharacter, postgres.CharacterNotInRepertoire), "The text cannot be stored by PostgreSQL."),
    ((postgres.UndefinedTable, postgres.UndefinedColumn, postgres.InvalidSchemaName), ALTERED),
    ((postgres.DataCorrupted, postgres.IndexCorrupted), "The database is damaged: restore it from a backup."),
    ((psycopg.OperationalError, psycopg.InterfaceError), LOST),
)
OTHER = (
    "The database server reported a failure. Nothing was changed: repeat the call, and look into the log of the server "
    "if that does not help."
)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the errors of this package instead of those of PostgreSQL."""
    try:
        yield
    except BUSY:
        raise DatabaseLockError(LOCKED) from None
    except psycopg.Error as error:
        logger.info("PostgreSQL failed: %s (%s)", where(error), error.sqlstate)
        said = message_for(error)
        raise (UnreachableError if said is LOST else DatabaseError)(said) from None
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        # Values are checked where they are read, but not against each other.
        logger.error("Invalid value: %s", where(error))  # noqa: TRY400 - a traceback would contain its message
        raise DamagedError(UNUSABLE) from error


def message_for(error: psycopg.Error) -> str:
    """Return what to say of an error."""
    if type(error) is psycopg.DatabaseError and error.sqlstate is None:  # of libpq: an answer has no end
        return LOST
    return next((message for kinds, message in FAILURES if isinstance(error, kinds)), OTHER)
