"""What hooks of real servers have taken is stored, whatever happens to the memory, the disk or the server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.conftest import mounted
from faults.test_full_disk import fill
from hook_texts import PROMPT
from memory_files import locked
from servers import Server
from vector_memory.outbox.folder import outboxes_of
from waiting import eventually

REPORTS = [
    f"# Finding {number}\n\nThe migration holds a lock on the orders table, in release {number}, for long."
    for number in range(5)
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that is soon full."""
    with mounted(tmp_path / "disk", "size=8m") as folder:
        yield folder


def hooked(server: Server, tool: str, **fields: str) -> None:
    """Call a hook's tool, which adds nothing to the context."""
    result = server.request("tools/call", name=tool, arguments={"session_id": "s", **fields})["result"]
    assert not result.get("isError")
    assert [json.loads(block["text"]) for block in result["content"]] == [{}]


def report(server: Server, text: str) -> None:
    hooked(server, "hook_subagent", agent_type="explorer", last_assistant_message=text)


def begin(server: Server) -> None:
    """Let the file be created, which takes a while."""
    report(server, REPORTS[0])
    eventually(lambda: texts(server) == REPORTS[:1])


def texts(server: Server) -> list[str]:
    """Return what is stored, in the order of storing."""
    found = server.call("search_changes", session_id="s", full=True, limit=100)["results"]
    return [one["content"] for one in found]


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Server]:
    """Run a server, and kill it at the end."""
    with Server(folder, **variables) as server:
        yield server.hello()


def test_reports_taken_while_the_file_was_locked_survive_the_death_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        begin(server)
        with locked(server.path):
            for text in REPORTS[1:]:
                report(server, text)
            server.process.kill()
            server.process.wait()
    with serving(tmp_path) as server:
        eventually(lambda: len(texts(server)) == len(REPORTS))
        assert texts(server) == REPORTS


def test_what_one_server_has_left_is_stored_by_another_that_runs_already(tmp_path: Path) -> None:
    with serving(tmp_path) as other, serving(tmp_path) as server:
        begin(server)
        with locked(server.path):
            report(server, REPORTS[1])
            server.process.kill()
            server.process.wait()
        eventually(lambda: texts(other) == REPORTS[:2])


def test_a_killed_server_leaves_no_text_of_a_hook_that_it_has_not_answered_yet(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        begin(server)
        outbox, _ = outboxes_of(server.path)
        with locked(server.path):
            fields = {"session_id": "s", "agent_type": "explorer", "last_assistant_message": REPORTS[1]}
            server.ask_tool("hook_subagent", **fields)
            eventually(outbox.paths)
            server.process.kill()
            server.process.wait()
    with serving(tmp_path) as server:
        eventually(lambda: texts(server) == REPORTS[:2])


@pytest.mark.parametrize("home", ["on another disk", "on the full disk"])
def test_what_is_taken_while_the_disk_is_full_is_stored_when_there_is_space(
    disk: Path, tmp_path: Path, home: str
) -> None:
    state = str(tmp_path / "state" if home == "on another disk" else disk / "state")
    with serving(disk, XDG_STATE_HOME=state) as server:
        begin(server)
        ballast = fill(disk)
        for text in REPORTS[1:]:
            report(server, text)
        if home == "on another disk":
            server.process.kill()
            server.process.wait()
            ballast.unlink()
        else:
            ballast.unlink()
            eventually(lambda: sorted(texts(server)) == REPORTS)
    with serving(disk, XDG_STATE_HOME=state) as server:
        eventually(lambda: sorted(texts(server)) == REPORTS)


def test_what_no_disk_takes_is_counted_in_the_log_when_the_server_ends(disk: Path) -> None:
    with serving(disk, XDG_STATE_HOME=str(disk)) as server:
        begin(server)
        fill(disk)
        for text in REPORTS[1:]:
            report(server, text)
        server.end("SIGTERM")
        log = server.errors().decode()
    assert "A text is held in memory only: This machine could not keep the text (No space left on device)" in log
    assert "Texts lost because no disk has taken them: 4" in log
    assert "migration" not in log


def test_a_file_that_cannot_be_read_keeps_nothing_behind_it_waiting(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        begin(server)
        outbox, _ = outboxes_of(server.path)
    (outbox.folder / f"{1:020}.json").mkdir(parents=True)
    outbox.add({"memory_type": "report", "content": REPORTS[1], "session_id": "s"})
    with serving(tmp_path) as server:
        eventually(lambda: texts(server) == REPORTS[:2])
        report(server, REPORTS[2])
        eventually(lambda: texts(server) == REPORTS[:3])
    assert [path.stem for path, _ in outbox.refused()] == [f"{1:020}"]


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"\xed\xa0\xbd"])
def test_a_prompt_that_was_cut_in_the_middle_of_an_emoji_is_stored(tmp_path: Path, half: bytes) -> None:
    with serving(tmp_path) as server:
        message = server.message(
            "tools/call", name="hook_prompt", arguments={"session_id": "s", "prompt": f"{PROMPT} HALF"}
        )
        server.write(json.dumps(message).encode().replace(b"HALF", half) + b"\n")
        assert json.loads(server.receive(message["id"])["result"]["content"][0]["text"]) == {}
        eventually(lambda: texts(server))
        [stored] = texts(server)
        assert stored.rstrip("\ufffd") == f"{PROMPT} "
        assert stored != f"{PROMPT} "
        tool = server.message("tools/call", name="store_report", arguments={"content": "HALF", "session_id": "s"})
        server.write(json.dumps(tool).encode().replace(b"HALF", half) + b"\n")
        assert server.receive()["error"]["code"] == -32700


def test_a_long_text_of_a_hook_waits_for_no_other_call(tmp_path: Path) -> None:
    """Long calls wait for each other; a client gives a hook up after seconds."""
    with serving(tmp_path) as server:
        begin(server)
        long = "word " * 20_000
        with locked(server.path):
            for number in range(6):
                server.ask_tool("store_report", session_id="t", content=f"{long} {number}")
            fields = {"session_id": "s", "agent_type": "explorer", "last_assistant_message": REPORTS[1] + long}
            hook = server.ask_tool("hook_subagent", **fields)
            assert server.receive()["id"] == hook
            assert outboxes_of(server.path)[0].paths()
