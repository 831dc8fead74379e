"""A memory that goes on from a copy without what was stored last: here from a backup that replaces it."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

from clusters import Cluster, as_unprivileged
from inside import stop_counting
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.extras.postgres import beginnings
from vector_memory.extras.postgres.beginnings import JUMP, Marks, Newest
from vector_memory.extras.postgres.connecting import connect
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Finding, Level

SESSION = Scope("report", session_id="s")


@pytest.fixture
def url(database: Callable[[str], str]) -> str:
    return database("postgres")


@pytest.fixture
def store(url: str, settings: Settings) -> Iterator[SessionMemoryStore]:
    """What a process has open all the time."""
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as opened:
        yield opened


@pytest.fixture
def restore(cluster: Cluster, url: str) -> Callable[[bytes], None]:
    """Replace the memory with an earlier dump of it, while processes have it open."""

    def restore(dump: bytes) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop schema memory cascade")
        run(cluster, "psql", "-q", "-v", "ON_ERROR_STOP=1", url, given=dump)

    return restore


@pytest.fixture
def dump(cluster: Cluster, url: str) -> Callable[[], bytes]:
    return lambda: run(cluster, "pg_dump", "--schema=memory", url)


def run(cluster: Cluster, program: str, *words: str, given: bytes = b"") -> bytes:
    command = [str(cluster.programs / "bin" / program), *words]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, cwd="/", **as_unprivileged())
    return done.stdout


def add(store: SessionMemoryStore, text: str) -> int:
    stored = store.store_memory("report", text, session_id="s", agent_id="a").memory_id
    assert stored is not None
    return stored


def test_a_cursor_of_what_is_lost_returns_all_that_is_new_and_says_what_is_lost(
    store: SessionMemoryStore, dump: Callable[[], bytes], restore: Callable[[bytes], None]
) -> None:
    kept = add(store, "kept")
    before = store.search_changes(SESSION).cursor
    saved = dump()
    lost = [add(store, f"lost {number}") for number in range(3)]
    assert store.search_documents("lost 1", SESSION).results[0].id == lost[1]
    known = store.search_changes(SESSION).cursor
    stop_counting(store)  # that would write, which begins the generation
    restore(saved)
    assert {hit.id for hit in store.search_documents("lost 1", SESSION).results} <= {kept}
    answer = store.search_changes(SESSION, since=known)
    assert ([hit.id for hit in answer.results], answer.cursor) == ([], before)
    assert answer.message.startswith("The memory continues from a copy that lacks the latest stores")
    assert f"the ids after {before}, up to {known}, are lost" in answer.message
    new = [add(store, f"new {number}") for number in range(5)]
    assert new == [lost[-1] + JUMP + 1 + number for number in range(5)]
    for query in (None, "new 1"):
        answer = store.search_changes(SESSION, since=known, query=query)
        assert sorted(hit.id for hit in answer.results) == new
        assert f"the ids after {before}, up to {known}, are lost" in answer.message
    for since, expected in ((before, new), (new[0], new[1:]), (None, [kept, *new])):
        answer = store.search_changes(SESSION, since=since)
        assert [hit.id for hit in answer.results] == expected
        assert "lost" not in answer.message


def test_every_backup_that_is_restored_begins_a_generation_which_the_doctor_names(
    store: SessionMemoryStore, url: str, dump: Callable[[], bytes], restore: Callable[[bytes], None]
) -> None:
    def named() -> Finding:
        model = EmbeddingModel(lambda: load_embedder(store.settings))
        report = Doctor(DatabaseUrl.parse(url), store.settings, model).examine()
        (finding,) = [finding for finding in report.findings if finding.name == "generation"]
        return finding

    add(store, "first")
    assert (named().state, named().message) == (Level.OK, "The memory has never continued from a copy.")
    for generation in range(2):
        saved = dump()
        add(store, "lost")
        restore(saved)
        assert (named().state, "a backup was restored" in named().message) == (Level.WARNING, True)
        last = add(store, f"new {generation}")
        assert (named().state, f"to {last - 1} is lost" in named().message) == (Level.OK, True)


def test_a_reader_whom_others_overtake_does_not_take_that_for_a_restored_backup(
    store: SessionMemoryStore, url: str
) -> None:
    add(store, "first")
    newest, opening = Newest(), beginnings.reading("memory")
    for is_over in (False, True):
        with closing(connect(url)) as connection, connection.reading(opening, newest):
            newest.meet(Marks(revision=2**62))  # by another thread, after this transaction has begun
            assert connection.state.is_over == is_over


def test_a_process_that_knows_a_later_id_notices_a_copy_that_others_have_changed_since(
    store: SessionMemoryStore, url: str
) -> None:
    kept = add(store, "first")
    newest = Newest()
    newest.meet(Marks(last_memory_id=kept + 1))
    newest.meet(Marks(revision=1, last_memory_id=kept))
    with closing(connect(url)) as connection, connection.reading(beginnings.reading("memory"), newest):
        assert connection.state.is_over
