"""In a network, the number of round trips is what a call costs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import shared_cluster
from engine_memories import DIMENSIONS, add, new_memory
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.errors import DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.storage import PostgresStorage
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[PostgresStorage]:
    opened = PostgresStorage(PostgresDatabase(shared_cluster().url(), schema=tmp_path.name, dimensions=DIMENSIONS))
    add(opened, new_memory("first"))
    assert opened.version()  # a connection of each kind is open
    yield opened
    opened.close()


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return the number of round trips since the last question."""
    made = 0
    send = Connection._send

    def counted(connection: Connection, statements: Any) -> Any:
        nonlocal made
        made += 1
        return send(connection, statements)

    monkeypatch.setattr(Connection, "_send", counted)

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
        assert (reader.fingerprint() is None, reader.count_pending(Scope()), trips()) == (False, 0, 0)
        reader.ids(Scope())
    assert trips() == 1
    with storage.read() as reader:
        reader.list_memories(Scope(), 1)
    assert trips() == 1


def test_a_change_whose_result_nobody_needs_is_sent_with_its_commit(
    storage: PostgresStorage, trips: Callable[[], int]
) -> None:
    trips()
    with storage.write() as writer:
        writer.record_access([1], "2027")
        writer.count_tag("tag", None, "2027")
    assert trips() == 1
    with storage.write():
        pass
    assert trips() == 0


def test_a_store_needs_at_most_four_round_trips_and_a_repeated_one_is_refused_after_one(
    settings: Settings, tmp_path: Path, trips: Callable[[], int]
) -> None:
    url = f"{shared_cluster().url()}&schema=store_{tmp_path.name}"
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
        for number in range(2):  # the first memory brings the fingerprint
            trips()
            store.store_memory("report", f"# Title {number}\n\nText.", session_id="s", agent_id="a")
        assert trips() == 4
        with pytest.raises(DuplicateMemoryError):
            store.store_memory("report", "# Title 1\n\nText.", session_id="s", agent_id="a")
        assert trips() == 1
