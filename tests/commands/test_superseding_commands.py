"""What supersedes what, on the command line."""

from pathlib import Path

import pytest

from commands.conftest import TOY, Run
from inside import storage_of
from vector_memory.storage.records import Links
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory of two reports."""
    with SessionMemoryStore(tmp_path / "memory.db", TOY) as store:
        for text, day in (("The export writes CSV.", "2026-01-01"), ("The export writes Parquet.", "2026-01-03")):
            store.store_memory("report", text, session_id="s", created_at=f"{day}T00:00Z")
    return tmp_path / "memory.db"


pytestmark = pytest.mark.usefixtures("memory")


def test_a_memory_is_superseded_shown_so_and_released(run: Run) -> None:
    assert run("supersede", 2, 1).out == "Memory 2 supersedes 1.\n"
    assert "superseded by  2" in run("show", 1).out
    assert run("show", 2, "--json").json["supersedes"] == [1]
    for words in (["list"], ["search", "export"], ["search", "export", "--kind", "report"]):
        assert "1 superseded memory left out; --as-of any lists them" in run(*words).out
    assert run("supersede", 2, 1, "--release", "--json").json == {
        "success": True, "message": "Memory 2 no longer supersedes 1.", "error": None, "memory_id": 2, "supersedes": [],
    }  # fmt: skip
    assert "superseded" not in run("timeline", "s").out


@pytest.mark.parametrize("words", [(1, 2), (2, 9), (2, "x"), (2,)])
def test_what_cannot_be_superseded_is_refused(run: Run, words: tuple[object, ...]) -> None:
    assert run("supersede", *words).code != 0


def test_filters_choose_what_a_memory_supersedes_among_those_before_it(run: Run, memory: Path) -> None:
    with SessionMemoryStore(memory, TOY) as store:
        for text, session in (("Yes.", "other"), ("The export writes Avro.", "s"), ("Later.", "s")):
            store.store_memory("report", text, session_id=session)
    assert run("supersede", 4, "--session", "s").out == "Memory 4 supersedes 1, 2.\n"
    assert run("supersede", 4, "--session", "s", "--state", "superseded", "--release").out.endswith("1, 2.\n")
    assert run("supersede", 4, 1, "--session", "s").code == 2
    assert run("supersede", 1, "--session", "s").err.endswith("Name at least one memory that it supersedes.\n")


def test_a_near_copy_is_merged_and_nothing_else(run: Run, memory: Path) -> None:
    copied = "The export writes its files to the share."
    with SessionMemoryStore(memory, TOY) as store:
        for text in (copied, f"{copied} It needs an hour."):
            store.store_memory("report", text, session_id="s", tags=["daily"] if text == copied else [])
    assert run("supersede", 2, 1, "--merge").err.endswith("does not repeat all of memory 1: nothing changed.\n")
    assert run("supersede", 4, 3, "--merge", "--json").json["supersedes"] == [3]
    assert run("show", 4, "--json").json["tags"] == ["daily"]
    assert run("supersede", 4, 3, "--merge", "--release").code == 2


def test_a_review_is_printed_and_a_line_dismissed(run: Run, memory: Path) -> None:
    with SessionMemoryStore(memory, TOY) as store, storage_of(store).write() as writer:
        writer.link(2, Links({1: 0.9}))
    assert [line["later"]["id"] for line in run("review", "--json").json["lines"]] == [2]
    assert run("review").out.endswith("vector-memory supersede 2 1\n")
    assert "vector-memory supersede" not in run("review", "--dismiss", 1).out
    assert run("review", "--dismiss", 99).code == 1


def test_commands_answer_as_of_a_time(run: Run) -> None:
    run("supersede", 2, 1)
    for as_of, numbers in (("2026-01-02", [1]), ("any", [1, 2]), ("2026-02", [2]), ("2025", [])):
        assert sorted(one["memory_id"] for one in run("list", "--as-of", as_of, "--json").json["entries"]) == numbers
        found = run("search", "export", "--kind", "report", "--as-of", as_of, "--json").json["results"]
        assert sorted(one["memory_id"] for one in found) == numbers
        assert len(run("timeline", "s", "--as-of", as_of, "--json").json["entries"]) == len(numbers)
        assert len(run("sessions", "--as-of", as_of, "--json").json["sessions"]) == min(1, len(numbers))
        assert len(run("export", "--as-of", as_of).out.splitlines()) == len(numbers) + 1
    assert '--as-of must be "any", or a date or time' in run("list", "--as-of", "x").err
    assert '--as-of must be "any", or a date or time' in run("export", "--as-of", "x").err


def test_a_file_supersedes_memories(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("The export writes JSON.")
    assert run("ingest", "new.md", "--session", "s", "--supersedes", 1, "--supersedes", 2).code == 0
    assert [one["memory_id"] for one in run("list", "--json").json["entries"]] == [3]
    assert run("ingest", "new.md", "--session", "t", "--supersedes", 99, "--json").json["files"][0]["state"] == "failed"
