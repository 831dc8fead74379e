"""Why a connection could not be made, in words that say what to do.

libpq gives no codes for this, only messages, which name the user and the server.
"""

import re

from vector_memory.errors import DatabaseError

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
    "The pooler in front of the database server had no connection left in time: repeat the call, raise its "
    f"`default_pool_size`, or {FEWER}"
)
UNREACHABLE = (
    "The database server cannot be reached: check its address, and that it is running. Repeat the call when it is back."
)

NO_TRANSACTIONS = (
    "The pooler in front of the database server gives each statement to another session, so it keeps no change "
    "together: set `pool_mode = transaction` for this database in its settings, or use the address of the server."
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
"""What a message contains, and what to say instead; the first that fits."""

TEMPORARY = {FULL, POOLER_FULL, UNREACHABLE}


class UnreachableError(DatabaseError):
    """The server is away, or the connection to it was lost. The next call tries again."""


PLACE = re.compile(r'connection to server (?:at|on socket) "([^"]+)"')


def refusal(message: str, database: str, host: str | None) -> DatabaseError:
    """Return the error for a connection that could not be made, with a note of its host: `host` if it was named."""
    said = next((said for part, said in REFUSALS if part in message), UNREACHABLE)
    refused = UnreachableError(said) if said in TEMPORARY else DatabaseError(said)
    place = PLACE.search(message)
    refused.add_note(f"The database is {database} at {host or (place and place[1]) or 'localhost'}.")
    return refused
