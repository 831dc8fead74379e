"""The power fails while a store works."""

import itertools
import random
from pathlib import Path
from typing import Literal, NamedTuple

import apsw
import pytest

from faults.effort import effort
from faults.ledger import Ledger, texts
from faults.originals import copied_original, is_taken_over, original_texts, whole_copies
from faults.power import Disk, failing_power
from faults.soundness import faults_of
from faults.workload import open_store, work
from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite import database
from vector_memory.storage.sqlite.connecting import set_up

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
    disk = Disk(folder / "images", random.Random(seed), effort(quick=50, long=3), left.append)
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
