"""`doctor --secrets` says which kinds of secrets are stored and where, never what they are."""

from pathlib import Path

import pytest

from commands.conftest import TOY, Run
from vector_memory.settings import Redact
from vector_memory.store import SessionMemoryStore

LEAKED = "ghp_w7Jq2ZkX9vR4mT1yB8nLc5HdGf3sPaE6uKoI"


@pytest.fixture(autouse=True)
def memory(tmp_path: Path) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", TOY.model_copy(update={"redact": Redact.OFF})) as store:
        store.store_memory("report", "# Door\n\nIt is open.", session_id="s")
        store.store_memory("report", f"# Door\n\nIts key is {LEAKED}.", session_id="s")
    file = tmp_path / "memory" / "a.md"
    file.parent.mkdir()
    file.write_text(f"<private>{LEAKED}</private>\n")


def test_a_dry_run_counts_kinds_and_names_memories_and_files(run: Run, tmp_path: Path) -> None:
    ended = run("doctor", "--secrets")
    assert (ended.code, LEAKED in ended.out + ended.err) == (1, False)
    assert "Found secrets in 1 memory and 1 file:" in ended.out
    assert "Memories: 2\n" in ended.out
    assert "vector-memory doctor --secrets --fix" in ended.out
    found = run("doctor", "--secrets", "--json").json
    assert (found["memory_ids"], found["kinds"]) == ([2], {"GitHub token": 1, "private": 1})
    assert found["files"] == [str(tmp_path / "memory" / "a.md")]


def test_what_was_removed_is_found_no_more_and_its_vectors_are_computed(run: Run, tmp_path: Path) -> None:
    ended = run("doctor", "--secrets", "--fix")
    assert (ended.code, "Removed secrets in 1 memory and 1 file" in ended.out) == (0, True)
    ended = run("doctor", "--secrets")
    assert (ended.code, ended.out.strip()) == (0, "Found no secrets.")
    assert (tmp_path / "memory" / "a.md").read_text() == "[redacted: private]\n"
    with SessionMemoryStore(tmp_path / "memory.db", TOY) as store:
        assert not store.get_memory_stats().without_vectors
        assert store.get_memory_by_id(2).memory.content == "# Door\n\nIts key is [redacted: GitHub token]."
