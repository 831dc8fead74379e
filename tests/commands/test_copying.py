"""copy as a command; what it copies is tested in tests/storage/engine/test_copying.py."""

import io
import json
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from clusters import schema_url
from commands.conftest import TOY, Run
from forked import COMMAND, Forked
from memory_files import contents
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.settings.database_url import memory_address
from vector_memory.storage.opening import open_storage
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
    run("delete", 2, "--yes")
    assert run("copy", memory, target).out.endswith(f" to {target}. Removed 1 that the source no longer has.\n")
    assert run("copy", memory, target, "--json").json["removed"] == 0
    assert contents(target) == contents(memory)


def test_a_memory_is_not_copied_to_itself(memory: Path, tmp_path: Path, run: Run) -> None:
    (link := tmp_path / "link.db").symlink_to(memory)
    for target in (memory, memory.parent / "." / ".." / memory.parent.name / memory.name, link):
        assert "is the source itself: choose another target." in run("copy", memory, target).err


def test_what_is_refused_names_the_reason(memory: Path, tmp_path: Path, run: Run) -> None:
    assert "There is no memory at" in run("copy", tmp_path / "none.db", tmp_path / "copy.db").err
    assert "does not exist" in run("copy", memory, tmp_path / "none" / "copy.db").err
    with SessionMemoryStore(other := tmp_path / "other.db", TOY) as store:
        store.store_memory("report", "Something else.", session_id="s")
    failed = run("copy", memory, other, "--json")
    assert failed.code == 1
    assert json.loads(failed.err)["error"] == "ValidationError"
    assert "invalid" in run("copy", memory, "postgresql://%zz").err


def number_in(address: str) -> int:
    """Return how many memories there are; -1 while the memory is being created."""
    try:
        opened = open_storage(memory_address(address), dimensions=384, read_only=True)
        with closing(opened) as storage, storage.read() as reader:
            return reader.memories.count(Scope())
    except DatabaseError:
        return -1


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_copy_that_is_killed_again_and_again_is_continued(first: str, second: str, tmp_path: Path, run: Run) -> None:
    """Killed with -9 while it creates the target, and after some portions."""
    source, target = (
        str(tmp_path / f"{name}{number}.db") if name == "sqlite" else schema_url(f"test_{uuid4().hex}")
        for number, name in enumerate((first, second))
    )
    with SessionMemoryStore(source, TOY) as store:
        for number in range(420):
            store.store_memory("input_prompt", f"Question {number}", session_id=f"s{number % 9}")
    for least in (0, 200):
        with Forked(COMMAND, "copy", source, target) as process:
            while process.poll() is None and number_in(target) < least:
                pass
            process.kill()
    assert run("copy", source, target).code == 0
    assert exported(target) == exported(source)
    assert run("copy", source, target, "--json").json["written"] == 0


def exported(address: str) -> bytes:
    with SessionMemoryStore(address, TOY) as store:
        store.export_memories(lines := io.BytesIO(), with_vectors=True)
    return lines.getvalue()
