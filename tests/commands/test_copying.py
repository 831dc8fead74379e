"""copy as a command; what it copies is tested in tests/storage/engine/test_copying.py."""

import json
from pathlib import Path

from commands.conftest import TOY, Run
from forked import COMMAND, Forked
from memory_files import contents
from vector_memory.errors import DatabaseError
from vector_memory.store import SessionMemoryStore


def test_a_copy_has_the_same_ids_and_texts_and_is_healthy(memory: Path, tmp_path: Path, run: Run) -> None:
    target = tmp_path / "copy.db"
    assert run("copy", memory, target) == (0, f"Copied 5 memories to {target}\n", "")
    assert contents(target) == contents(memory)
    assert run("doctor", "--database-path", target).code == 0
    found = [run("search", "ledger", "--json", "--database-path", place).json for place in (memory, target)]
    assert found[0] == found[1]
    assert "5 of them in an earlier run" in run("copy", memory, target).out
    assert run("copy", memory, target, "--json").json["written"] == 0


def test_what_is_refused_names_the_reason(memory: Path, tmp_path: Path, run: Run) -> None:
    assert "There is no memory at" in run("copy", tmp_path / "none.db", tmp_path / "copy.db").err
    assert "does not exist" in run("copy", memory, tmp_path / "none" / "copy.db").err
    with SessionMemoryStore(other := tmp_path / "other.db", TOY) as store:
        store.store_memory("report", "Something else.", session_id="s")
    failed = run("copy", memory, other, "--json")
    assert failed.code == 1
    assert json.loads(failed.err)["error"] == "ValidationError"
    assert "invalid" in run("copy", memory, "postgresql://%zz").err


def number_in(path: Path) -> int:
    """Return how many memories a file has; -1 while it is being created."""
    try:
        return len(contents(path)) if path.is_file() else -1
    except DatabaseError:
        return -1


def test_a_copy_that_is_killed_again_and_again_is_continued(tmp_path: Path, run: Run) -> None:
    source, target = tmp_path / "memory.db", tmp_path / "copy.db"
    with SessionMemoryStore(source, TOY) as store:
        for number in range(1_000):
            store.store_memory("input_prompt", f"Question {number}", session_id=f"s{number % 9}")
    for least in (0, 200, 400, 600, 800):
        with Forked(COMMAND, "copy", source, target) as process:
            while process.poll() is None and number_in(target) < least:
                pass
            process.kill()
    assert run("copy", source, target).code == 0
    assert contents(target) == contents(source)
    assert run("doctor", "--database-path", target).code == 0
