"""Processes are killed (kill -9) at any moment, and the power fails while a store works."""

import itertools
import json
import random
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw
import pytest

from faults.effort import effort
from faults.ledger import Ledger, texts
from faults.originals import copied_original, is_taken_over, original_texts, whole_copies
from faults.power import Disk, failing_power
from faults.processes import started, told
from faults.server import Server
from faults.soundness import faults_of
from faults.workload import memory, open_store, store_one, work
from inside import storage_of
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError
from vector_memory.settings import Settings
from vector_memory.storage.sqlite import database
from vector_memory.storage.sqlite.connecting import set_up
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import background
from vector_memory.writing.indexer import Indexer
from waiting import eventually

LONG_TEXTS = 2
"""Of each server. They take several batches each."""

SERVED = Settings(embedding_model="toy")
"""The settings of the server: with another model, nobody could compute the vectors that it leaves undone."""


def killed_while_working(path: Path, first: int, source: random.Random) -> list[list[Any]]:
    """Let a process work on a file, kill it after its first store, and return its lines."""
    with started("work", path, first) as process:
        lines = [process.stdout.readline() for _ in range(source.randint(2, 40))]
        time.sleep(source.uniform(0, 0.01))
        process.kill()
        return [json.loads(line) for line in lines] + told(process)


def test_a_killed_process_loses_nothing_acknowledged_leaves_nothing_partial_and_blocks_nobody(tmp_path: Path) -> None:
    path, ledger, source = tmp_path / "memory.db", Ledger(), random.Random()
    for kill in range(effort(quick=8, long=100)):
        with open_store(path) if kill % 4 == 3 else nullcontext() as survivor:
            for event, *numbers in killed_while_working(path, (kill + 1) * 1000, source):
                ledger.note(event, *numbers)
            assert ledger.losses(path) == []
            if survivor:
                store_one(survivor, kill, ledger.note)
            assert faults_of(path) == []
    assert ledger.losses(path) == []
    assert ledger.live
    assert ledger.deleted


def killed_while_opening(path: Path, change: int) -> list[list[Any]]:
    """Let a process open a file and compute its vectors, and kill itself before a change; return its lines."""
    with started("index", path, change) as process:
        return told(process)


def moments(path: Path, kills: int) -> list[int]:
    """Return random changes to be killed before, of all that are made when `path` is opened without being killed."""
    [[_, changes]] = killed_while_opening(path, 0)
    return random.sample(range(1, changes + 1), kills)


def test_a_process_killed_while_creating_a_file_leaves_one_that_the_next_process_can_use(tmp_path: Path) -> None:
    for change in moments(tmp_path / "memory.db", effort(quick=2, long=50)):
        path = tmp_path / str(change) / "memory.db"
        assert killed_while_opening(path, change) == []
        with open_store(path) as store:
            store.store_memory(**memory(0))
        assert faults_of(path) == [], change


def test_a_process_killed_during_an_upgrade_or_a_backfill_loses_no_memory_and_the_next_one_finishes(
    tmp_path: Path,
) -> None:
    for change in moments(copied_original(tmp_path), effort(quick=3, long=75)):
        path = copied_original(tmp_path / str(change))
        assert killed_while_opening(path, change) == []
        assert not is_taken_over(path) or whole_copies(path), change
        assert texts(path) == original_texts(), change
        assert faults_of(path, indexed=False) == [], change
        with open_store(path) as store:
            assert store.backfill_embeddings().memories_remaining == 0
        assert faults_of(path) == [], change


@pytest.fixture
def _usual_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for what a killed server has left when its lease ends, not only after the long one of other tests."""
    monkeypatch.setattr(background, "LEASE_SECONDS", 5.0)


@pytest.mark.usefixtures("_usual_leases")
def test_a_killed_server_has_kept_every_memory_whose_receipt_it_sent(tmp_path: Path) -> None:
    path, ledger, numbers = tmp_path / "memory.db", Ledger(), itertools.count()
    for _ in range(effort(quick=1, long=15)):
        with Server(path) as server:
            for number in itertools.islice(numbers, random.randint(1, 20)):
                ledger.note("stored", number, server.stored_id(server.ask_to_store(memory(number))))
            number = next(numbers)
            ledger.note("storing", number)
            server.ask_to_store(memory(number))
            time.sleep(random.uniform(0, 0.03))
        assert ledger.losses(path) == []
        with SessionMemoryStore(path, SERVED) as store:
            store.defer_vectors()
            eventually(lambda store=store: not store.get_memory_stats().without_vectors)
        assert faults_of(path, ToyEngine()) == []


def long_text(number: int) -> str:
    """Return a report of several hundred passages that no other equals."""
    parts = [f"## Part {part}\n\n{f'finding {number} of part {part} ' * 60}" for part in range(100)]
    return f"# Report {number}\n\n" + "\n\n".join(parts)


@pytest.mark.usefixtures("_usual_leases")
def test_long_texts_whose_servers_are_killed_get_all_their_vectors_once(tmp_path: Path) -> None:
    path, stored, numbers = tmp_path / "memory.db", dict[int, str](), itertools.count()
    for _ in range(effort(quick=2, long=20)):
        with Server(path) as server:
            for text in map(long_text, itertools.islice(numbers, LONG_TEXTS)):
                stored[server.stored_id(server.ask_to_store(memory(0) | {"content": text}))] = text
            time.sleep(random.uniform(0, 0.5))
    with SessionMemoryStore(path, SERVED) as store:
        store.defer_vectors()
        eventually(lambda: not store.get_memory_stats().without_vectors)
        with storage_of(store).read() as reader:
            memories = reader.memories.get_all(list(stored))
            found = {number: reader.vectors.passages_of(one) for number, one in memories.items()}
            chunks = {number: [part.chunk for part in reader.chunks.of(number)] for number in stored}
    assert {number: one.content for number, one in memories.items()} == stored
    indexer = Indexer(EmbeddingModel(ToyEngine), SERVED)
    for number, one in memories.items():
        at_once = indexer.embed(indexer.unit_texts(one.memory_type, one.title, one.content, chunks[number]))
        assert at_once.passages == [(part.chunk, part.start, part.end) for part in found[number]]
        assert at_once.vectors.tobytes() == b"".join(part.vector.tobytes() for part in found[number])
    assert faults_of(path, ToyEngine()) == []


ENOUGH_TO_SHOW_A_LOSS = 20


class Cut(NamedTuple):
    """What a power failure left, and what had been acknowledged until then."""

    path: Path
    ledger: Ledger


class EnoughCutsError(Exception):
    """Ends the work."""


def power_failures(folder: Path, seed: int, cuts: int, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> list[Cut]:
    """Let a store work, and return the files left by power failures at random moments."""
    left: list[Cut] = []
    ledger = Ledger()

    def tell(event: str, *numbers: int) -> None:
        ledger.note(event, *numbers)
        if len(left) >= cuts:
            raise EnoughCutsError

    def on_cut(image: Path) -> None:
        left.append(Cut(image / "memory.db", ledger.copy()))

    disk = Disk(folder / "images", random.Random(seed), 150, on_cut)
    with failing_power(disk), open_store(folder / "memory.db", synchronous) as store, pytest.raises(EnoughCutsError):
        work(store, itertools.count(), random.Random(seed), tell)
    return left[:cuts]


def verdict(cut: Cut) -> str:
    """Say what a power failure did: `whole`, `lost` (something that was acknowledged), `damaged`."""
    try:
        losses = cut.ledger.losses(cut.path)
        if faults_of(cut.path):
            return "damaged"
    except (apsw.Error, DatabaseError):
        return "damaged"
    return "lost" if losses else "whole"


@pytest.mark.parametrize("seed", range(effort(quick=1, long=10)))
def test_a_power_failure_damages_nothing_and_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    for cut in power_failures(tmp_path, seed, effort(quick=20, long=60)):
        assert cut.ledger.losses(cut.path) == [], cut.path
        assert faults_of(cut.path) == [], cut.path


def test_the_simulated_power_failure_loses_acknowledged_memories_without_full_synchronisation(tmp_path: Path) -> None:
    cuts = power_failures(tmp_path, 1, ENOUGH_TO_SHOW_A_LOSS, "NORMAL")
    assert {verdict(cut) for cut in cuts} == {"lost", "whole"}


def test_the_simulated_power_failure_damages_a_file_that_is_never_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "set_up", lambda connection, _: set_up(connection, "OFF"))
    cuts = power_failures(tmp_path, 1, ENOUGH_TO_SHOW_A_LOSS)
    assert "damaged" in {verdict(cut) for cut in cuts}


def upgrades_without_power(folder: Path, seed: int) -> list[Path]:
    """Take over a file of the original server and index it, and return what power failures left meanwhile."""
    left: list[Path] = []
    disk = Disk(folder / "images", random.Random(seed), effort(quick=150, long=3), left.append)
    path = copied_original(folder)
    with failing_power(disk), open_store(path) as store:
        store.backfill_embeddings()
    return [image / "memory.db" for image in left]


def test_a_power_failure_during_an_upgrade_or_a_backfill_loses_no_memory(tmp_path: Path) -> None:
    for path in upgrades_without_power(tmp_path, 1):
        assert texts(path) == original_texts(), path
        with open_store(path) as store:
            store.backfill_embeddings()
        assert faults_of(path) == [], path


def test_a_power_failure_after_an_upgrade_leaves_the_copy_of_the_original_intact(tmp_path: Path) -> None:
    upgraded = [path for path in upgrades_without_power(tmp_path, 1) if is_taken_over(path)]
    assert upgraded
    assert all(whole_copies(path) for path in upgraded)
