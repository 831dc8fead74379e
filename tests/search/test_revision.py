"""The file's revision: whatever another process changes, the next search of this one answers from memory as it is."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from inside import database_of, index_of, rebuild_words
from search.test_exact import fill, load_index, open_store
from vector_memory.domain import Page, Scope
from vector_memory.storage.queries.feed import Revision
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.sqlite import checkpointer
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


def revision(store: SessionMemoryStore) -> Revision:
    with database_of(store).read() as connection:
        return SqliteFeed(SqliteConnection(connection)).revision()


def answers(store: SessionMemoryStore) -> list[Any]:
    """Return what searches for one kind of chunks, and one of memories, find."""
    chunks = store.search_chunks("a b c", REPORTS, Page(limit=100)).results
    memories = store.search_memories("a b c", Scope("system_memory"), Page(limit=100)).results
    # The list that names what found a unit holds the nearest fifty of an index, and what a batch gives of the tables.
    return [(found.chunk_id, found.similarity) for found in chunks] + [(one.id, one.similarity) for one in memories]


def within(change: Callable[[Connection], object]) -> Callable[[SessionMemoryStore], object]:
    def apply(store: SessionMemoryStore) -> None:
        with database_of(store).write() as connection:
            change(connection)

    return apply


def lose_vectors(connection: Connection) -> None:
    """Delete a table of vectors; then the backfill has to make them again."""
    connection.execute("delete from memory_passages where chunk_id is not null")
    SqliteConnection(connection).later("{begin_epoch}")
    connection.execute("update session_memories set embedding_model_id = null where auto_chunk = 1")


def lose_chunks(connection: Connection) -> None:
    """Take a document's chunks away, as the doctor does with those that are not as its text is."""
    checkpointer.count_delete(connection)
    KeywordIndex(SqliteConnection(connection)).remove(1)
    connection.execute("delete from memory_chunks where parent_id = 1")
    connection.execute("update session_memories set embedding_model_id = null where id = 1")


CHANGES: dict[str, list[Callable[[SessionMemoryStore], object]]] = {
    "stored": [lambda store: store.store_memory("report", "a b c and more", session_id="s1")],
    "deleted": [lambda store: store.delete_memory(1)],
    "deleted and stored": [
        lambda store: store.delete_memory(1),
        lambda store: store.store_memory("report", "a b c and more", session_id="s1"),
    ],
    "keywords made again": [within(rebuild_words)],
    "vectors lost": [within(lose_vectors)],
    "vectors made again": [within(lose_vectors), lambda store: store.backfill_embeddings()],
    "chunks lost": [within(lose_chunks)],
    "chunks made again": [within(lose_chunks), lambda store: store.backfill_embeddings()],
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_index_notices_what_another_process_changed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store, open_store(path) as other:
        store.store_memory("report", "a b c " * 40, session_id="s1")
        fill(store, random.Random(3), 25)
        load_index(store)
        answers(store)
        for change in CHANGES[name]:
            before = revision(store)
            change(other)
            assert revision(store) != before
            assert answers(store) == answers(other)
            load_index(store)
            with database_of(store).read() as connection:
                assert index_of(store).view(SqliteFeed(SqliteConnection(connection))) is not None
            assert answers(store) == answers(other)


def test_only_changes_that_invalidate_the_index_start_an_epoch(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        first = revision(store)
        memory_id = store.store_memory("report", "a b c", session_id="s1").memory_id
        store.delete_memory(memory_id)
        assert revision(store)[:2] == (first.epoch, first.removals + 1)
        with database_of(store).write() as connection:
            rebuild_words(connection)
        assert revision(store).epoch == first.epoch + 1


def test_a_lost_revision_is_restored_with_an_unused_number(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        store.store_memory("report", "a b c", session_id="s1")
        before = revision(store)
    connection = apsw.Connection(str(path))
    connection.execute("delete from revision")
    connection.close()
    with open_store(path) as store, database_of(store).write() as connection:
        rebuild_words(connection)
    with open_store(path) as store:
        assert revision(store).epoch > before.epoch + 1_000_000


def statements_of(store: SessionMemoryStore, search: Callable[[], object]) -> list[str]:
    """Return the statements that a search runs on the connection that it is given."""
    with database_of(store).read() as connection:
        guard = connection.exec_trace
    assert guard is not None
    statements: list[str] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append(" ".join(sql.split()))
        return guard(cursor, sql, bindings)

    connection.exec_trace = trace
    try:
        search()
    finally:
        connection.exec_trace = guard
    return statements


@pytest.mark.parametrize("loaded", [False, True])
def test_a_search_reads_in_one_transaction_and_checks_the_model_once(tmp_path: Path, *, loaded: bool) -> None:
    # Nothing is near, so that other scopes are searched as well.
    scope = Scope("report", session_id="s1", agent_id="a1", session_iter=1)
    with open_store(tmp_path / "memory.db") as store:
        fill(store, random.Random(3), 10)
        if loaded:
            load_index(store)
        for search in (store.search_chunks, store.search_sections):
            statements = statements_of(store, lambda search=search: search("zzz", scope))
            assert statements.count("begin") == 1
            assert sum("from embedding_models" in sql for sql in statements) == 1
            assert sum("from revision" in sql for sql in statements) == 1 + loaded
