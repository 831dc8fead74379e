"""Real servers over a folder of Markdown files that is edited while they run."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from servers import Server
from waiting import PATIENCE

NOTES = Path(__file__).parents[1] / "data" / "markdown"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    shutil.copytree(NOTES, project / "memory")
    return project


@pytest.fixture
def variables(project: Path, tmp_path: Path) -> dict[str, str]:
    return {
        "CLAUDE_PROJECT_DIR": str(project),
        "VECTOR_MEMORY_DB_DIR": str(tmp_path / "indexes"),
        "VECTOR_MEMORY_TOOLSETS": "files",
    }


@pytest.fixture
def server(tmp_path: Path, variables: dict[str, str]) -> Iterator[Server]:
    with Server(tmp_path, **variables) as server:
        yield server.hello()


def eventually(ask: Callable[[], dict[str, Any]], holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    give_up = time.monotonic() + PATIENCE
    while not holds(answer := ask()):
        assert time.monotonic() < give_up, answer
        time.sleep(0.1)
    return answer


def is_complete(status: dict[str, Any]) -> bool:
    return bool(
        status["watching"] and status["files"] and not status["indexing"] and not status["chunksWithoutVectors"]
    )


def test_edits_are_found_where_they_stand_after_the_debounce(server: Server, project: Path) -> None:
    eventually(lambda: server.call("memory_status"), is_complete)
    note = project / "memory" / "fastapi-server-workers.md"
    lines = note.read_text().split("\n")
    lines.insert(9, "\nThe launch code of the quokka is kumquat-77.\n")
    note.write_text("\n".join(lines))
    answer = eventually(
        lambda: server.call("memory_search", query="kumquat-77"), lambda answer: "kumquat-77" in str(answer["results"])
    )
    # As long as it has no vectors, others may come before it.
    hit = next(result for result in answer["results"] if "kumquat-77" in result["text"])
    read = server.call(
        "memory_get", path=hit["path"], startLine=hit["startLine"], lines=hit["endLine"] - hit["startLine"] + 1
    )
    assert hit["path"] == "memory/fastapi-server-workers.md"
    assert hit["text"] in read["content"]
    assert read["content"].rstrip("\n").endswith(hit["text"][-40:])
    note.unlink()
    eventually(lambda: server.call("memory_search", query="kumquat-77"), lambda answer: "kumquat" not in str(answer))


def test_only_the_index_is_written_and_not_in_the_project(server: Server, project: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    eventually(lambda: server.call("memory_status"), is_complete)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    assert not server.path.exists(), "the memory of the sessions is not opened"
    names = sorted(path.name for path in (tmp_path / "indexes").iterdir())
    assert re.fullmatch(r"project-[0-9a-f]{12}\.sqlite", names[0])


def test_a_server_whose_index_has_no_place_starts_with_all_its_other_tools(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "indexes").write_text("A file where the folder should be.")
    with Server(tmp_path, **{**variables, "VECTOR_MEMORY_TOOLSETS": "all"}) as server:
        server.hello()
        assert "VECTOR_MEMORY_DB_DIR" in server.call("memory_search", query="workers")["message"]
        assert server.call("memory_get", path="fastapi-server-workers.md")["success"]
        assert server.call("list_sessions")["success"]


def test_servers_on_one_folder_share_an_index_and_lose_no_entry(
    tmp_path: Path, variables: dict[str, str], project: Path
) -> None:
    with Server(tmp_path, **variables) as one, Server(tmp_path, **variables) as two:
        servers = [one.hello(), two.hello()]

        def write(number: int) -> str:
            return "".join(
                servers[number].call("memory_write", entry=f"Entry {number}-{each}.")["path"] for each in range(12)
            )

        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(write, range(2)))
        text = "".join(path.read_text() for path in (project / "memory").glob("20*.md"))
        assert sorted(re.findall(r"^Entry \S+", text, re.MULTILINE)) == sorted(
            f"Entry {number}-{each}." for number in range(2) for each in range(12)
        )
        eventually(
            lambda: two.call("memory_status"),
            lambda status: is_complete(status) and status["chunks"] == one.call("memory_status")["chunks"],
        )
    assert len(list((tmp_path / "indexes").glob("*.sqlite"))) == 1


def test_a_server_that_is_killed_while_it_indexes_leaves_an_index_that_goes_on(
    tmp_path: Path, variables: dict[str, str], project: Path
) -> None:
    for number in range(60):
        (project / "memory" / f"{number}.md").write_text(f"# Note {number}\n\nWords of note {number}.\n")
    with Server(tmp_path, **variables) as first:
        first.hello()
        eventually(lambda: first.call("memory_status"), lambda status: status["files"])
    with Server(tmp_path, **variables) as second:
        second.hello()
        done = eventually(lambda: second.call("memory_status"), is_complete)
        assert done["files"] == 60 + len(list(NOTES.glob("*.md")))
        (found,) = second.call("memory_search", query="note 47", limit=1)["results"]
        assert found["path"] == "memory/47.md"


@pytest.mark.parametrize("how", ["SIGTERM", "end of input"])
def test_a_server_ends_at_once_while_it_indexes(
    tmp_path: Path, variables: dict[str, str], project: Path, how: str
) -> None:
    for number in range(60):
        (project / "memory" / f"{number}.md").write_text(f"# Note {number}\n\n{'Words. ' * 300}\n")
    with Server(tmp_path, **variables) as server:
        server.hello()
        eventually(lambda: server.call("memory_status"), lambda status: status["indexing"])
        server.end(how)
        assert server.process.returncode == 0


def test_an_export_in_the_memory_folder_does_not_keep_a_deleted_memory_findable(
    project: Path, variables: dict[str, str]
) -> None:
    with Server(project / "memory", **variables | {"VECTOR_MEMORY_TOOLSETS": "all"}) as server:
        server.hello()
        stored = server.call("store_report", agent_id="a", session_id="s", content="The kumquat launch code is 77.")
        written = server.call("write_document_to_file", memory_id=stored["memory_id"], output_path="code.md")
        server.call("delete_memory", memory_id=stored["memory_id"])
        assert Path(written["file_path"]).parent == project / "memory" / "exports"
        (project / "memory" / "later.md").write_text("The quokka sleeps.")
        eventually(
            lambda: server.call("memory_search", query="quokka"),
            lambda answer: any(hit["path"] == "memory/later.md" for hit in answer["results"]),
        )
        found = server.call("memory_search", query="kumquat launch code")
        assert not [hit for hit in found["results"] if "exports" in hit["path"]]
