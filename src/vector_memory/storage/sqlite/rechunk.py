"""Documents without chunks, which an upgrade leaves behind: cuts them, so that they are found by their words.

The vectors follow (`maintenance.backfill`). Documents are cut outside of transactions and added in short ones, so other
processes are not held up, and a process that ends before it is done loses nothing: the next one goes on.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

import apsw

from vector_memory.domain import Chunk
from vector_memory.errors import DatabaseError
from vector_memory.storage.queries.memories import MemoryQueries
from vector_memory.storage.records import Derived, Memory
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteConnection, SqliteWriter
from vector_memory.storage.unit_text import searchable_texts

logger = logging.getLogger(__name__)

Cut = Callable[[str], Sequence[Chunk]]
"""Returns the chunks of a document."""

Transaction = Callable[[], AbstractContextManager[apsw.Connection]]

CHARACTERS_AT_ONCE = 500_000
"""Added in one transaction; one document may be longer."""

DOCUMENTS_AT_ONCE = 500

# Indexes answer this without reading a text, so it costs nothing where there are no such documents.
UNCUT = """
    m.embedding_model_id is null
    and not exists (select 1 from keyword_memories where memory_id = m.id)
    and not exists (select 1 from memory_chunks where parent_id = m.id)
"""


def cut_documents(read: Transaction, write: Transaction, cut: Cut, seconds: float = math.inf) -> None:
    """Cut the documents that have no chunks, and index the words of their chunks; begin nothing after `seconds`."""
    deadline = time.monotonic() + seconds
    done = 0
    while time.monotonic() < deadline:
        with read() as connection:
            documents = next_documents(connection, done)
        if not documents:
            return
        prepared = [prepare(memory, cut) for memory in documents]
        with write() as connection:
            for memory, derived in prepared:
                if derived.chunks and is_uncut(connection, memory.id):
                    SqliteWriter(connection).add_chunks(memory, derived)
        done = documents[-1].id


def next_documents(connection: apsw.Connection, after_id: int) -> list[Memory]:
    """Return the next documents without chunks, as many as are added at once."""
    ids = fetch_column(
        connection,
        f"""
        select m.id from session_memories m indexed by idx_embedding_model
        where {UNCUT} and m.id > ? order by m.id limit {DOCUMENTS_AT_ONCE}
        """,
        (after_id,),
    )
    documents: list[Memory] = []
    length = 0
    for memory_id in ids:
        if length >= CHARACTERS_AT_ONCE:
            break
        with suppress(DatabaseError):  # one damaged row must not keep the file from being opened
            documents.append(MemoryQueries(SqliteConnection(connection)).memory(memory_id))
            length += len(documents[-1].content)
    return documents


def is_uncut(connection: apsw.Connection, memory_id: int) -> bool:
    """Return whether a document is still there without chunks: another process may have been faster."""
    sql = f"select 1 from session_memories m where m.id = ? and m.auto_chunk and {UNCUT}"
    return fetch_value(connection, sql, (memory_id,)) is not None


def prepare(memory: Memory, cut: Cut) -> tuple[Memory, Derived]:
    """Return a document with its chunks; none if it cannot be cut, which must not keep the file from being opened."""
    from vector_memory.storage.postings import indexed  # noqa: PLC0415 - needs numpy, and few files come here

    try:
        chunks = cut(memory.content) if memory.chunked else []
        texts = searchable_texts(memory.title, memory.content, chunks, chunked=True)
        return memory, Derived(chunks=chunks, words=indexed(texts))
    except Exception as error:
        # The error's message is not logged, because it may quote the text.
        logger.warning("Memory %d could not be cut into chunks: %s", memory.id, type(error).__name__)
        return memory, Derived(chunks=[], words=indexed([]))
