"""What hooks store and tell in real servers, which are killed, locked out and full."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import mounted
from faults.test_full_disk import fill
from hook_texts import ANSWER, PROMPT
from memory_files import contents, locked
from servers import CLIENT, Server
from vector_memory.writing.outbox import outbox_of_memory
from waiting import eventually

pytestmark = pytest.mark.sqlite("its servers have files")

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


def begin(server: Any, relay: Server | None = None) -> None:
    """Let the file be created, which takes a while."""
    report(relay or server, REPORTS[0])
    eventually(lambda: texts(server) == REPORTS[:1])


def texts(server: Any) -> list[str]:
    """Return what is stored, in the order of storing."""
    found = server.call("search_changes", session_id="s", full=True, limit=100)["results"]
    return [one["content"] for one in found]


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Server]:
    """Run a server, and kill it at the end."""
    with Server(folder, **variables) as server:
        yield server.hello()


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
        outbox = outbox_of_memory(server.path)
        with locked(server.path):
            fields = {"session_id": "s", "agent_type": "explorer", "last_assistant_message": REPORTS[1]}
            server.ask_tool("hook_subagent", **fields)
            eventually(outbox.paths)
            server.process.kill()
            server.process.wait()
    with serving(tmp_path) as server:
        eventually(lambda: texts(server) == REPORTS[:2])


def is_kept(server: Server, text: str) -> bool:
    """Call a hook; return whether its answer says that the text is kept."""
    fields = {"session_id": "s", "agent_type": "explorer", "last_assistant_message": text}
    result = server.request("tools/call", name="hook_subagent", arguments=fields)["result"]
    assert [json.loads(block["text"]) for block in result["content"]] == [{}]
    return "vector-memory/failed" not in result.get("_meta", {})


def test_of_300_hooks_under_a_full_disk_locks_and_kills_none_is_lost_and_none_stored_twice(disk: Path) -> None:
    hooks = [f"{REPORTS[0]} It was seen by observer {number}." for number in range(300)]
    for part in range(0, 300, 50):
        with serving(disk) as server, serving(disk) as other, ExitStack() as faults:
            for number, text in enumerate(hooks[part : part + 50]):
                if number == 10:
                    faults.enter_context(locked(server.path))
                if number == 15:
                    other.process.kill()
                if number == 20:
                    faults.close()
                    ballast = fill(disk)
                if number == 30:
                    ballast.unlink()
                assert is_kept(other if number % 2 and number < 15 else server, text)
            server.process.kill()
    with serving(disk) as server:
        outbox = outbox_of_memory(server.path)
        eventually(outbox.is_empty)
    stored = contents(server.path)
    assert sorted(stored) == sorted(hooks)
    assert not outbox.refused()


def test_what_the_disk_does_not_take_is_kept_elsewhere_and_stored_when_it_does(disk: Path) -> None:
    with serving(disk) as server:
        begin(server)
        ballast = fill(disk)
        for text in REPORTS[1:]:
            assert is_kept(server, text)
        server.end("SIGTERM")
        log = server.errors().decode()
    assert "until the disk takes it (No space left on device)" in log
    assert "migration" not in log
    ballast.unlink()
    with serving(disk) as server:
        eventually(lambda: texts(server) == REPORTS)


def test_a_file_that_cannot_be_read_keeps_nothing_behind_it_waiting(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        begin(server)
        outbox = outbox_of_memory(server.path)
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
            assert outbox_of_memory(server.path).paths()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server(folder, CLAUDE_PROJECT_DIR="") as server:
        yield server.hello()


def hooked_server(server: Server, tool: str, **fields: str) -> dict[str, Any]:
    """Call a hook's tool, and return the text of its answer as the client reads it."""
    result = server.request("tools/call", name=tool, arguments=fields)["result"]
    assert not result.get("isError")
    [block] = result["content"]
    return dict(json.loads(block["text"]))


def test_a_session_is_told_what_the_one_before_it_left(server: Server, folder: Path) -> None:
    listed = server.request("tools/list")["result"]["tools"]
    assert hooked_server(server, "hook_prompt", session_id="one", prompt=PROMPT) == {}
    assert hooked_server(server, "hook_answer", session_id="one", last_assistant_message=ANSWER) == {}
    stored = server.call("store_report", content="# Locks\n\nReleased.")
    assert (stored["session_id"], stored["agent_id"]) == ("one", CLIENT["name"])
    told = hooked_server(server, "hook_prompt", session_id="two", prompt="Go on.")["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert PROMPT in told["additionalContext"]
    assert f"{stored['memory_id']}: Locks" in told["additionalContext"]
    assert server.call("get_memory_by_id", memory_id=1)["memory"]["metadata"] == {"project": str(folder)}
    assert not [tool for tool in listed if tool["name"].startswith("hook")]


def test_a_server_starts_and_names_sessions_even_if_the_client_did_not_fill_in_the_project(tmp_path: Path) -> None:
    with Server(tmp_path, CLAUDE_PROJECT_DIR="${CLAUDE_PROJECT_DIR}") as server:
        stored = server.hello().call("store_report", content="Found.")
    assert stored["session_id"] == f"project-{stored['created_at'][:10]}"
