"""Whether deleted bytes may still be in the write-ahead log, or in the file under it: counted in the file itself.

A delete is counted in its own transaction, so every process that opens the file learns of it, also when the process
that deleted was killed. Whoever empties the log afterwards notes up to which delete it did so.
"""

import apsw

from vector_memory.storage.sqlite.rows import fetch_value

TABLE = """
create table erasure (
    id integer primary key check (id = 1),
    deletes integer not null,
    erased integer not null
);
insert into erasure values (1, 0, 0);
"""


def count_delete(connection: apsw.Connection) -> None:
    """Note, in the transaction that deletes, that bytes have to be erased."""
    connection.execute("update erasure set deletes = deletes + 1")


def unerased(connection: apsw.Connection) -> int | None:
    """Return the number of the last delete if its bytes may still be there, None if all are erased."""
    number: int | None = fetch_value(connection, "select deletes from erasure where deletes > erased")
    return number


def note_erased(connection: apsw.Connection, delete: int) -> None:
    """Note that the log was emptied after this delete. Later ones, by other processes, stay noted."""
    connection.execute("update erasure set erased = ? where erased < ?", (delete, delete))
