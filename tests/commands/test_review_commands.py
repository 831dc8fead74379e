"""What people accept, reject and take out of use on the command line."""

from pathlib import Path

import pytest

from commands.conftest import TOY, Run
from vector_memory.store import SessionMemoryStore

PAGE = "https://evil.example/"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory of a page that a scout read, what was concluded from it, and a report of nobody's concern."""
    settings = TOY.model_copy(update={"pending": "agent:scout"})
    with SessionMemoryStore(tmp_path / "memory.db", settings) as store:
        store.store_memory("report", "The page says: port 1.", session_id="s", agent_id="reader", sources=[PAGE])
        store.store_memory("report", "The port is 1.", session_id="s", sources=["memory:1"])
        store.store_memory("report", "The disk is full.", session_id="s", agent_id="scout")
    return tmp_path / "memory.db"


pytestmark = pytest.mark.usefixtures("memory")


def ids(run: Run) -> list[int]:
    return sorted(one["memory_id"] for one in run("timeline", "s", "--json").json["entries"])


def test_what_awaits_review_is_listed_and_accepted(run: Run) -> None:
    assert ids(run) == [1, 2]
    said = run("review").out
    assert "pending, agent: The disk is full." in said
    assert "vector-memory review --accept 3, or --reject 3" in said
    assert run("review", "--accept", "all", "--json").json.get("held") is None
    assert ids(run) == [1, 2, 3]


def test_what_is_rejected_is_gone(run: Run) -> None:
    assert run("review", "--reject", 1).err.endswith("`vector-memory review` lists those that are.\n")
    run("review", "--reject", 3)
    assert (
        run("show", 3).err == "vector-memory: There is no memory 3: it was deleted or never stored in this database.\n"
    )


def test_a_source_is_taken_out_with_what_came_from_it_after_a_look(run: Run) -> None:
    assert run("quarantine", "--source", PAGE, "--dry-run").out == "Would take 2 memories out of use: 1, 2.\n"
    assert ids(run) == [1, 2]
    assert run("quarantine", "--source", PAGE).code != 0, "without a terminal, nobody can be asked"
    assert run("quarantine", "--source", PAGE, "--yes").out == "Took 2 memories out of use: 1, 2.\n"
    assert "There is no session" in run("timeline", "s").err
    assert "quarantined, source https://evil.example/: The page says" in run("review").out
    run("review", "--accept", 2, "--reject", 1)
    assert ids(run) == [2]
    assert run("quarantine").code == 2


def test_what_agents_deleted_is_listed_brought_back_and_erased(run: Run, memory: Path) -> None:
    with SessionMemoryStore(memory, TOY) as store:
        for number in (1, 2):
            store.delete_memory(number, by="claude-code")
    assert "deleted by claude-code, until " in run("undo").out
    assert [one["id"] for one in run("undo", "--json").json["deleted"]] == [1, 2]
    assert "Deleted" not in run("review").out
    assert "Memory 3 cannot be brought back" in run("undo", 3).err
    assert run("undo", 2, "--agent", "reader").code != 0, "another agent stored it"
    assert run("undo", "--agent", "reader").out == "Brought back 1 memory.\n"
    assert run("undo", 2, "--erase").out == "Erased 1 memory.\n"
    assert ids(run) == [1]
    with SessionMemoryStore(memory, TOY) as store:
        store.delete_memory(1, by="claude-code")
        store.store_memory("report", "The page says: port 1.", session_id="s", agent_id="reader")
    assert run("undo", 1).out == "Brought back 0 memories. The texts of 1 memory were stored again.\n"
