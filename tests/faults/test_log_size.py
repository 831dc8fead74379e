"""The write-ahead log stays bounded."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from faults.effort import effort
from faults.soundness import connected
from faults.workload import memory, open_store, search
from inside import database_of
from vector_memory.domain import Page, Scope
from vector_memory.errors import VectorMemoryError
from vector_memory.storage.sqlite import connecting as checkpointer
from vector_memory.storage.sqlite.connecting import LONG_PAGES
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.timeout(900)

STORES = effort(quick=100, long=2000)
PAGE = 4096 + 24
BOUND = 1_200 * PAGE
"""The log is restarted after a commit has brought it to 1,000 pages, and no memory here takes 200."""


@pytest.fixture
def store(path: Path) -> Iterator[SessionMemoryStore]:
    """A store whose file and log exist."""
    with open_store(path) as opened:
        database_of(opened).create()
        yield opened


def log_size(path: Path) -> int:
    """Return the bytes of the log."""
    return path.with_name(path.name + "-wal").stat().st_size


def largest_log(store: SessionMemoryStore, numbers: Iterator[int], path: Path, stores: int = STORES) -> int:
    """Store many memories and return the bytes of the log when it was largest."""
    sizes = []
    for number in itertools.islice(numbers, stores):
        store.store_memory(**memory(number))
        sizes.append(log_size(path))
    return max(sizes)


@contextlib.contextmanager
def searching_all_the_time(path: Path) -> Iterator[list[int]]:
    """Search from another connection until the end of the block; the list has how much each search found."""
    found: list[int] = []
    ended = threading.Event()

    def search_on() -> None:
        with open_store(path) as store:
            while not ended.is_set():
                found.append(search(store, 0))

    thread = threading.Thread(target=search_on)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def test_the_log_stays_small_while_others_read_all_the_time(store: SessionMemoryStore, path: Path) -> None:
    with searching_all_the_time(path) as found:
        assert largest_log(store, itertools.count(), path) < 1.5 * LONG_PAGES * PAGE
    assert max(found) == 5


def test_a_long_read_delays_no_store_and_the_first_store_after_it_empties_the_log(
    store: SessionMemoryStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()
    with connected(path) as connection, connection, monkeypatch.context() as patch:
        patch.setattr(checkpointer, "empty", lambda *_: pytest.fail("a store waited for the reader"))
        connection.execute("select count(*) from session_memories").fetchall()
        assert largest_log(store, numbers, path) > 1.5 * LONG_PAGES * PAGE
    store.store_memory(**memory(next(numbers)))
    assert largest_log(store, numbers, path) < BOUND


@contextlib.contextmanager
def readings_that_overlap(path: Path, seconds: float) -> Iterator[None]:
    """Read until the end of the block, each time for so long, and begin each reading in the middle of the last one."""
    ended = threading.Event()

    def read_on() -> None:
        with connected(path) as first, connected(path) as second:
            for connection, other in itertools.cycle([(first, second), (second, first)]):
                connection.execute("begin")
                connection.execute("select count(*) from session_memories").fetchall()
                if ended.wait(seconds / 2):
                    return
                if other.in_transaction:
                    other.execute("rollback")

    thread = threading.Thread(target=read_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(("seconds", "pages"), [(0.05, 1.5 * LONG_PAGES), (0.5, 3 * LONG_PAGES)])
def test_the_log_is_restarted_while_reads_overlap_and_others_store(
    store: SessionMemoryStore, path: Path, seconds: float, pages: float
) -> None:
    with readings_that_overlap(path, seconds):
        assert largest_log(store, itertools.count(), path, stores=2 * STORES) < pages * PAGE


def test_a_delete_empties_the_log(store: SessionMemoryStore, path: Path) -> None:
    for number in range(3):
        store.store_memory(**memory(number))
    assert log_size(path) > 0
    for delete in (lambda: store.delete_memory(1), lambda: store.cleanup_old_memories(0, dry_run=False)):
        assert delete().message
        assert log_size(path) == 0


def test_the_log_is_gone_when_the_last_store_is_closed(path: Path) -> None:
    with open_store(path) as store:
        store.store_memory(**memory(0))
    assert not path.with_name(path.name + "-wal").exists()


Call = Callable[[SessionMemoryStore], object]
REPORTS = Scope("report")
CALLS: dict[str, Call] = {
    "store": lambda store: store.store_memory(**memory(5)),
    "store again": lambda store: store.store_memory(**memory(0)),
    "look up": lambda store: store.search_scoped(REPORTS, Page(limit=3)),
    "search memories": lambda store: store.search_memories("naïve", Scope("report_observation"), Page(limit=3)),
    "search chunks": lambda store: store.search_chunks("naïve", REPORTS, Page(limit=3)),
    "search sections": lambda store: store.search_sections("naïve", REPORTS, Page(limit=3)),
    "search documents": lambda store: store.search_documents("naïve", REPORTS, Page(limit=3), order="relevance"),
    "recent documents": lambda store: store.search_documents(None, REPORTS, Page(limit=3)),
    "context": lambda store: store.load_session_context_for_task("s0", 1),
    "expand": lambda store: store.expand_chunk_context(1),
    "expand nothing": lambda store: store.expand_chunk_context(999),
    "reconstruct": lambda store: store.reconstruct_document(1),
    "reconstruct nothing": lambda store: store.reconstruct_document(999),
    "get": lambda store: store.get_memory_by_id(1),
    "get nothing": lambda store: store.get_memory_by_id(999),
    "describe": lambda store: store.describe_memory(1),
    "export": lambda store: store.write_document_to_file(1, "report.md"),
    "statistics": lambda store: store.get_session_stats("s0"),
    "sessions": lambda store: store.list_sessions(),
    "what is new": lambda store: store.search_changes(Scope(session_id="s0"), page=Page(limit=1)),
    "what is new about something": lambda store: store.search_changes(Scope(session_id="s0"), query="naïve"),
    "what is new after nothing": lambda store: store.search_changes(Scope(session_id="s0"), since=999),
    "names": lambda store: store.find_names("agent_id", "a", "s0"),
    "delete": lambda store: store.delete_memory(2),
    "delete nothing": lambda store: store.delete_memory(999),
    "clean up on trial": lambda store: store.cleanup_old_memories(0),
    "clean up": lambda store: store.cleanup_old_memories(0, dry_run=False),
    "backfill": lambda store: store.backfill_embeddings(),
    "search statistics": lambda store: store.get_search_statistics(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_transaction_outlives_its_call(store: SessionMemoryStore, path: Path, call: Call) -> None:
    for number in range(4):
        store.store_memory(**memory(number))
    with contextlib.suppress(VectorMemoryError):
        call(store)
    store.store_memory(**memory(8))
    with connected(path) as connection:
        connection.set_busy_timeout(30_000)

        def is_empty_after_checkpoint() -> bool:
            """Return whether it is: reads are counted in the background. Raises BusyError while anybody reads."""
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return log_size(path) == 0

        eventually(is_empty_after_checkpoint)
