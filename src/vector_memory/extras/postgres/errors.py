"""Translates errors of PostgreSQL into errors of this package.

Messages of the server and of psycopg quote SQL, stored text, and addresses, so they are not passed on.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as postgres

from vector_memory.errors import DatabaseError, DatabaseLockError, where
from vector_memory.storage.damaged import DamagedError

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
    "The standby cancelled the read, because its primary has removed what was being read. Repeat the "
    "call; if this happens often, raise `max_standby_streaming_delay` or turn on `hot_standby_feedback` there."
)
ALTERED = "The tables of the memory were altered: run `vector-memory doctor` to find out what is wrong."
UNUSABLE = "The database contains invalid data: run `vector-memory doctor` to find out what is wrong."

NO_NAMES = (
    "The pooler in front of the database server does not pass prepared statements on: set `max_prepared_statements` of "
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
    "The database server reported a failure. Nothing was changed: repeat the call, and check the server's log "
    "if that does not help."
)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise this package's errors instead of PostgreSQL's."""
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
    """Return the message for an error."""
    if type(error) is psycopg.DatabaseError and error.sqlstate is None:  # from libpq: an incomplete answer
        return LOST
    return next((message for kinds, message in FAILURES if isinstance(error, kinds)), OTHER)


# Why a connection failed, in words that say what to do.


USER = (
    "The database server refused the user or the password: check the user in the URL, and the password in PGPASSWORD, "
    "in ~/.pgpass or in the file that --database-password-file names."
)
DATABASE = "The database does not exist on the server: check its name, or create it."
CERTIFICATE = (
    "The certificate of the database server is not from an authority that this machine trusts, or not for this host: "
    "name the file of the authority in the URL, as sslrootcert=FILE, and the server as its certificate does."
)
AUTHORITIES = "The certificates that the database server is checked with cannot be read: check sslrootcert in the URL."
NO_TLS = (
    "The database server offers no encryption: turn on TLS there, or add --database-unencrypted in a network that you "
    "trust."
)
FEWER = "let each process open fewer, with ?connections=N in the database URL."
FULL = f"The database server has no connections left: repeat the call, raise its `max_connections`, or {FEWER}"
POOLER_FULL = (
    "The pooler in front of the database server had no free session in time: repeat the call, raise its "
    f"`default_pool_size`, or {FEWER}"
)
UNREACHABLE = (
    "The database server cannot be reached: check its address, and that it is running. Repeat the call when it is back."
)

NO_TRANSACTIONS = (
    "The pooler in front of the database server runs each statement in another session, which splits every change: "
    "set `pool_mode = transaction` for this database in its settings, or use the address of the server."
)

REFUSALS = (
    ("statement pooling mode", NO_TRANSACTIONS),
    ("certificate verify failed", CERTIFICATE),
    ("does not match host name", CERTIFICATE),
    ("root certificate file", AUTHORITIES),
    ("server does not support SSL", NO_TLS),
    ("query_wait_timeout", POOLER_FULL),
    ("no more connections allowed", POOLER_FULL),
    ("too many clients", FULL),
    ("too many connections", FULL),
    ("remaining connection slots", FULL),
    ("no password supplied", USER),
    ("authentication failed", USER),
    ("no pg_hba.conf entry", USER),
    ("not permitted to log in", USER),
    ('FATAL:  role "', USER),
    ('FATAL:  database "', DATABASE),
)
"""What a message contains, and what to say instead; the first match counts."""

TEMPORARY = {FULL, POOLER_FULL, UNREACHABLE}


class UnreachableError(DatabaseError):
    """The server is away, or the connection to it was lost. The next call tries again."""


PLACE = re.compile(r'connection to server (?:at|on socket) "([^"]+)"')


def refusal(message: str, database: str, host: str | None) -> DatabaseError:
    """Return the error for a failed connection, with a note of its host: `host` if it was named."""
    said = next((said for part, said in REFUSALS if part in message), UNREACHABLE)
    refused = UnreachableError(said) if said in TEMPORARY else DatabaseError(said)
    place = PLACE.search(message)
    refused.add_note(f"The database is {database} at {host or (place and place[1]) or 'localhost'}.")
    return refused
