"""Two processes write and checkpoint the same file (R1)."""

import itertools
import time
from pathlib import Path

import pytest

from faults.effort import effort
from faults.ledger import Ledger
from faults.processes import started, told
from faults.soundness import faults_of

SECONDS = effort(quick=3, long=120)


@pytest.mark.timeout(600)
def test_two_processes_that_write_and_checkpoint_lose_nothing_and_damage_nothing(tmp_path: Path) -> None:
    path, ledger = tmp_path / "memory.db", Ledger()
    with started("share", path, 0) as one, started("share", path, 1_000_000) as other:
        time.sleep(SECONDS)
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("stop\n")
            process.stdin.flush()
        words = [told(process) for process in (one, other)]
        assert [process.wait() for process in (one, other)] == [0, 0]
    assert all(words)
    for event, *numbers in itertools.chain(*words):
        ledger.note(event, *numbers)
    assert ledger.losses(path) == []
    assert faults_of(path) == []
