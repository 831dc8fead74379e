"""In a network, the number of round trips is what a call costs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from clusters import shared_cluster
from engine_memories import add, new_memory, opened
from inside import database_of
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.errors import DuplicateMemoryError
from vector_memory.extras.postgres import database
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresStorage
from vector_memory.reading.documents import AccessRecorder
from vector_memory.search.question import Question
from vector_memory.search.rank import Ranking, ScopeData
from vector_memory.settings import Settings
from vector_memory.storage.connection import Query, Steps, value_of
from vector_memory.storage.postings import buckets_of
from vector_memory.store import SessionMemoryStore

REPORTS, KNOWLEDGE = Scope("report", session_id="s"), Scope("knowledge_base", category="go")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[PostgresStorage]:
    with closing(opened(shared_cluster().url(), tmp_path.name)) as storage:
        add(storage, new_memory("first"))
        assert storage.version()  # a connection of each kind is open
        yield storage


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return the number of round trips since the last question."""
    made = 0
    send = Connection.send

    def counted(connection: Connection, statements: Any) -> Any:
        nonlocal made
        made += 1
        return send(connection, statements)

    monkeypatch.setattr(Connection, "send", counted)

    def asked() -> int:
        nonlocal made
        made, before = 0, made
        return before

    return asked


def test_a_read_needs_as_many_round_trips_as_it_asks_questions(
    storage: PostgresStorage, trips: Callable[[], int]
) -> None:
    trips()
    with storage.read() as reader:
        reader.cursor()
        assert trips() == 1
        assert reader.vectors.fingerprint() is not None
        assert (reader.vectors.pending(Scope()).memories, trips()) == (0, 0)
        reader.memories.ids(Scope())
    assert trips() == 1
    with storage.read() as reader:
        reader.memories.page(Scope(), 1)
    assert trips() == 1


def test_reads_together_take_as_many_round_trips_as_the_one_with_most_steps(
    storage: PostgresStorage, trips: Callable[[], int]
) -> None:
    def twice(number: int) -> Steps[int]:
        (first,) = yield Query(value_of, "select cast(%(number)s as bigint) as n", {"number": number})
        (second,) = yield Query(value_of, "select cast(%(number)s as bigint) + 1 as n", {"number": first})
        return int(second)

    trips()
    with storage.read() as reader:
        found = reader.together(twice(1), reader.memories.count.steps(Scope()), reader.vectors.pending.steps(Scope()))
        assert (found[:2], found[2].memories, trips()) == ([2, 1], 0, 2)
        assert reader.together() == []
    assert trips() == 0


def test_changes_without_needed_results_are_sent_together(storage: PostgresStorage, trips: Callable[[], int]) -> None:
    trips()
    with storage.write() as writer:
        writer.record_access([1], "2027")
        writer.count_tag("tag", None, "2027")
    assert trips() == 2
    with storage.write():
        pass
    assert trips() == 0


def test_a_misspelt_word_costs_three_round_trips_and_others_none(
    storage: PostgresStorage, trips: Callable[[], int]
) -> None:
    made = []
    for word in ("first", "nowhere", "frist"):
        with storage.read() as reader:
            question = Question(None, [word], plain={} if word == "nowhere" else {word: word})
            found = ScopeData(reader.vectors.candidates.indexed(REPORTS, buckets_of([word])))
            ranking = Ranking(reader.vectors.candidates, REPORTS, question, found)
            trips()
            respelt = ranking.respelt(reader)
            made.append(trips())
        assert bool(respelt) == (word == "frist")
    assert made == [0, 0, 3]  # the words, the chunks with the likeliest, and their titles


def test_a_store_needs_three_round_trips_and_a_repeated_one_too_which_waits_for_standbys(
    settings: Settings, tmp_path: Path, trips: Callable[[], int]
) -> None:
    url = f"{shared_cluster().url()}&schema=store_{tmp_path.name}"
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
        for number in range(2):  # the first memory brings the fingerprint, and the first block of its session
            trips()
            store.store_memory("report", f"# Title {number}\n\nText.", session_id="s", agent_id="a")
        assert trips() == 3
        with pytest.raises(DuplicateMemoryError):
            store.store_memory("report", "# Title 1\n\nText.", session_id="s", agent_id="a")
        assert trips() == 3


def test_a_repeated_store_waits_for_no_writer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{shared_cluster().url()}&schema=repeated_{tmp_path.name}"
    report = {"memory_type": "report", "content": "# Title", "agent_id": "a", "session_id": "s"}
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store, ThreadPoolExecutor(1) as thread:
        store.store_memory(**report)
        monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
        with database_of(store).write() as connection:
            assert connection.state
            assert isinstance(thread.submit(lambda: store.store_memory(**report)).exception(), DuplicateMemoryError)


def test_a_writer_plans_a_statement_a_few_times_and_for_a_table_of_any_size(settings: Settings, tmp_path: Path) -> None:
    url = f"{shared_cluster().url()}&schema=plans_{tmp_path.name}"
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
        for number in range(50):
            store.store_memory("knowledge_base", f"Fact {number}", title="Fact", category="go")
            stored = store.store_memory("report", f"# Report {number}\n\nText.", session_id="s")
            if number % 2:
                store.delete_memory(stored.memory_id)
        with database_of(store).write() as connection:
            sql = "select statement, generic_plans, custom_plans from pg_prepared_statements where statement like %s"
            known = connection.execute(sql, ("%$1%",)).fetchall()
            inserts = [(generic, custom) for sql, generic, custom in known if "insert into" in sql]
            assert len(inserts) > 3
            assert all(generic > custom for generic, custom in inserts)
            plans = [connection.execute(f"explain (generic_plan) {sql}").fetchall() for sql, _, _ in known]
    scans = [line for plan in plans for (line,) in plan if "Seq Scan" in line]
    assert all("Seq Scan on namespace" in line for line in scans)


FILTERED = Scope(
    "report", session_id="s", agent_id="a", session_iter=1, task_code="t", tags=("x",), created_after="2020"
)
SEARCHES: dict[str, Callable[[SessionMemoryStore, str], object]] = {
    "chunks": lambda store, query: store.search_chunks(query, REPORTS),
    "chunks, by meaning": lambda store, query: store.search_chunks(query, REPORTS, mode="vector"),
    "chunks, by words": lambda store, query: store.search_chunks(query, REPORTS, mode="keyword"),
    "documents": lambda store, query: store.search_documents(query, REPORTS),
    "sections": lambda store, query: store.search_sections(query, REPORTS),
    "knowledge of a category": lambda store, query: store.search_memories(query, KNOWLEDGE),
    "sections of a task, after a date": lambda store, query: store.search_sections(query, FILTERED),
}
"""Searches. Each takes three round trips: for the scope, for what its best units say and other scopes have, and for
what stands beside the results.
"""


def is_far(store: SessionMemoryStore, query: str) -> bool:
    """Return whether no search finds anything close."""
    return not any(search(store, query).confidence == "strong" for search in SEARCHES.values())  # type: ignore[attr-defined]


def test_a_search_needs_three_round_trips(
    settings: Settings, tmp_path: Path, trips: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AccessRecorder, "record", lambda *_: None)  # which counts reads later, beside the caller
    url = f"{shared_cluster().url()}&schema=search_{tmp_path.name}"
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
        words = [f"word{number}" for number in range(len(SEARCHES))]
        for word in words:  # the very text is close, so no search looks elsewhere
            store.store_memory("report", word, session_id="s", agent_id="a", task_code="t", tags=["x"])
            store.store_memory("system_memory", word, session_id="s", agent_id="a")
            store.store_memory("knowledge_base", word, title="t", category="go", agent_id="a")
        far = next(text for text in map(str, range(999)) if is_far(store, f"n0thing {text}"))
        needed = {}
        for word, (name, search) in zip(words, SEARCHES.items(), strict=True):
            for query in (word, f"n0thing {far}"):
                trips()
                search(store, query)
                needed[name, query == word] = trips()
        assert needed == dict.fromkeys(product(SEARCHES, (True, False)), 3)
