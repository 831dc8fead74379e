"""Records in the file whether deleted bytes may remain in it or in its write-ahead log.

A deletion is counted in its own transaction, so every process that opens the file knows about it, even if the process
that deleted was killed. A process that empties the log then records up to which deletion it did so.
"""

import apsw

from vector_memory.storage.sqlite.rows import fetch_value


def count_delete(connection: apsw.Connection) -> None:
    """Record, in the transaction that deletes, that bytes have to be erased."""
    connection.execute("update erasure set deletes = deletes + 1")


def unerased(connection: apsw.Connection) -> int | None:
    """Return the number of the last deletion if its bytes may remain; None if all are erased."""
    number: int | None = fetch_value(connection, "select deletes from erasure where deletes > erased")
    return number


def note_erased(connection: apsw.Connection, delete: int) -> None:
    """Record that the log was emptied after this deletion. Later ones, by other processes, stay recorded."""
    connection.execute("update erasure set erased = ? where erased < ?", (delete, delete))
