"""Two processes write and checkpoint the same file, and only SQLite opens it."""

import itertools
import subprocess
import sys
import time
from pathlib import Path

from faults.effort import effort
from faults.ledger import Ledger
from faults.processes import TESTS, started, told
from faults.soundness import faults_of


def test_two_processes_that_write_and_checkpoint_lose_nothing_and_damage_nothing(tmp_path: Path) -> None:
    path, ledger = tmp_path / "memory.db", Ledger()
    with started("share", path, 0) as one, started("share", path, 1_000_000) as other:
        time.sleep(effort(quick=3, long=120))
        for process in (one, other):
            process.stdin.write("stop\n")
            process.stdin.flush()
        words = [told(process) for process in (one, other)]
        assert [process.wait() for process in (one, other)] == [0, 0]
    assert all(words)
    for event, *numbers in itertools.chain(*words):
        ledger.note(event, *numbers)
    assert ledger.losses(path) == []
    assert faults_of(path) == []


OPENED_BY_PYTHON = """
import os, sys
from pathlib import Path
from faults.workload import memory, open_store

path, opened = Path(sys.argv[1]), []

def note(event, arguments):
    # A file that is made and not there yet cannot be locked yet.
    if event == "open" and str(arguments[0]).startswith(str(path)) and not arguments[2] & os.O_EXCL:
        opened.append(arguments[0])

sys.addaudithook(note)
for first in (1, 9):
    with open_store(path) as store:
        for number in range(first, first + 8):
            store.store_memory(**memory(number))
        store.load_session_context_for_task("s0", 1)
        store.write_document_to_file(first, "a.md", overwrite=True)
        store.delete_memory(first)
        store.backfill_embeddings()
assert not opened, opened
path.open("rb").close()
assert opened, "nothing was noticed"
"""


def test_only_sqlite_opens_the_file_because_closing_it_would_drop_the_locks_of_the_process(tmp_path: Path) -> None:
    """POSIX locks belong to a process and a file, not to a descriptor."""
    command = [sys.executable, "-c", OPENED_BY_PYTHON, str(tmp_path / "memory.db")]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
