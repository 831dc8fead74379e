"""What an upgrade leaves to be done when the file is open: words to be indexed again, and documents to be cut."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

import apsw

from vector_memory.storage.queries.insert import KeywordQueries
from vector_memory.storage.sqlite.connecting import wait_for_locks
from vector_memory.storage.sqlite.rechunk import Cut, Transaction, cut_documents
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.terms import OLD_WORDS

SECONDS_AT_OPENING = 5.0
"""About 5 MB of documents to cut, or 15 MB of texts to index. What takes longer is left to the next opening, to a
server's background, or to the backfill."""


def finish_at_opening(connection: apsw.Connection, cut: Cut | None) -> None:
    """Finish the upgrade of a file that is being opened, for a few seconds. Without `cut` no documents are cut.

    What is damaged can be read in part, and `vector-memory doctor` finds it. What another process keeps locked can be
    read as well, and where its words do not fit a second time, other memories may.
    """
    connection.set_busy_timeout(int(SECONDS_AT_OPENING * 1000))
    try:
        with suppress(apsw.CorruptError, apsw.BusyError, apsw.FullError):
            finish(lambda: nullcontext(connection), partial(immediately, connection), cut, SECONDS_AT_OPENING)
    finally:
        wait_for_locks(connection)


def finish(read: Transaction, write: Transaction, cut: Cut | None, seconds: float = math.inf) -> None:
    """Index words by earlier rules again, and cut the documents without chunks; begin nothing after `seconds`."""
    deadline = time.monotonic() + seconds
    with read() as connection:
        is_old = has_old_words(connection)
    if is_old:
        index_again(read, write, seconds)
    if cut is not None:
        cut_documents(read, write, cut, deadline - time.monotonic())


def has_old_words(connection: apsw.Connection) -> bool:
    """Return whether there are words by earlier rules."""
    return fetch_value(connection, f"{OLD_WORDS} limit 1") is not None


def index_again(read: Transaction, write: Transaction, seconds: float) -> None:
    """Index words by earlier rules again, as `storage.reindexing` does."""
    from vector_memory.storage import reindexing  # noqa: PLC0415 - imports numpy, which few openings need

    @contextmanager
    def words(transaction: AbstractContextManager[apsw.Connection]) -> Iterator[KeywordQueries]:
        with transaction as connection:
            yield KeywordQueries(SqliteConnection(connection))

    reindexing.index_again(lambda: words(read()), lambda: words(write()), seconds)


@contextmanager
def immediately(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """Give a connection inside a write transaction: committed at the end of the block, undone on any error."""
    connection.execute("begin immediate")
    try:
        yield connection
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
