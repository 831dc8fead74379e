"""A client without HTTP in front of a shared memory that comes and goes."""

import itertools
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from over_http.test_processes import Running, running
from servers import LEGACY, MODERN, Server
from vector_memory.server.http.outbox import Outbox
from vector_memory.server.http.relaying import outbox_of
from waiting import eventually


@contextmanager
def relay_to(url: str, secret: str, folder: Path, version: str = LEGACY) -> Iterator[Server]:
    """Run a relay to a server."""
    folder.mkdir(exist_ok=True)
    token = folder / "token"
    token.write_text(f"{secret}\n")
    token.chmod(0o600)
    variables = {"VECTOR_MEMORY_REMOTE": url, "VECTOR_MEMORY_TOKEN_FILE": str(token), "XDG_STATE_HOME": str(folder)}
    with Server(folder, version=version, **variables) as relay:
        yield relay.hello()


def stored(relay: Server, number: int) -> dict[str, Any]:
    """Store a report."""
    return relay.call("store_report", agent_id="a", session_id="s", content=f"# Report {number}\n\nFound {number}.")


def texts(server: Running) -> list[str]:
    """Return the titles of the reports in the shared memory, in the order in which they were stored."""
    found = server.call("search_changes", session_id="s", limit=100)["results"]
    return [one["title"] for one in found]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_relay_answers_as_the_shared_memory_does(tmp_path: Path, version: str) -> None:
    with running(tmp_path / "team") as server, relay_to(server.url, server.secret, tmp_path / "here", version) as relay:
        assert stored(relay, 1)["memory_id"] == 1
        found = relay.call("search_reports_specific_chunks", query="found")
        assert "Found 1." in found["results"][0]["chunk_content"]
        assert relay.call("get_memory_by_id", memory_id=99)["error"] == "ValidationError"
        memory = relay.request("resources/read", uri="memory://memories/1")["result"]["contents"][0]
        assert "Found 1." in memory["text"]
        arguments = {"session_id": "s"}
        prompt = relay.request("prompts/get", name="continue_session", arguments=arguments)["result"]["messages"]
        assert '"s"' in prompt[0]["content"]["text"]


def test_a_relay_lists_what_its_token_permits(tmp_path: Path) -> None:
    with running(tmp_path / "team") as server:
        secret = server.token("reader", "read")
        with relay_to(server.url, secret, tmp_path / "here") as relay:
            names = {tool["name"] for tool in relay.request("tools/list")["result"]["tools"]}
            assert "search_changes" in names
            assert "store_report" not in names


def test_without_the_shared_memory_a_search_fails_at_once_and_a_store_is_kept_and_sent_in_order(tmp_path: Path) -> None:
    port = str(free_port())
    url = f"http://127.0.0.1:{port}/mcp"
    team, here = tmp_path / "team", tmp_path / "here"
    with running(team, "--port", port) as server:
        secret = server.secret
    with relay_to(url, secret, here) as relay:
        failed = relay.call("search_reports_specific_chunks", query="found")
        assert failed["message"] == f"The shared memory at {url} cannot be reached: tell the user."
        kept = [stored(relay, number) for number in range(5)]
        assert all(one["success"] and one["queued"] for one in kept)
        outbox = Outbox(next((here / "vector-memory" / "outbox").iterdir()))
        assert len(list(outbox.waiting())) == 5
        with running(team, "--port", port) as server:
            eventually(outbox.is_empty)
            assert stored(relay, 5)["success"]
            eventually(outbox.is_empty)
            assert texts(server) == [f"Report {number}" for number in range(6)]


def test_hooks_are_never_shown_an_error_and_what_they_store_arrives(tmp_path: Path) -> None:
    port = str(free_port())
    team, here = tmp_path / "team", tmp_path / "here"
    with running(team, "--port", port) as server:
        secret = server.secret
    with relay_to(f"http://127.0.0.1:{port}/mcp", secret, here) as relay:
        arguments = {"session_id": "mine", "prompt": "Why does the nightly import fail?"}
        answer = relay.request("tools/call", name="hook_prompt", arguments=arguments)["result"]
        assert (answer["content"][0]["text"], answer.get("isError", False)) == ("{}", False)
        with running(team, "--port", port) as server:
            outbox = Outbox(next((here / "vector-memory" / "outbox").iterdir()))
            eventually(outbox.is_empty)
            found = server.call("search_input_prompts", session_id="mine")["results"]
            assert [one["content"] for one in found] == ["Why does the nightly import fail?"]
            later = {"session_id": "another", "prompt": "Go on where we stopped."}
            told = relay.request("tools/call", name="hook_prompt", arguments=later)["result"]["content"][0]["text"]
            assert "Why does the nightly import fail?" in told


def test_what_waits_survives_the_relay_and_is_sent_by_the_next_once(tmp_path: Path) -> None:
    port = str(free_port())
    url = f"http://127.0.0.1:{port}/mcp"
    team, here = tmp_path / "team", tmp_path / "here"
    with running(team, "--port", port) as server:
        secret = server.secret
    with relay_to(url, secret, here) as relay:
        for number in range(20):
            stored(relay, number)
    with running(team, "--port", port) as server:
        with relay_to(url, secret, here), relay_to(url, secret, here):
            outbox = Outbox(next((here / "vector-memory" / "outbox").iterdir()))
            eventually(outbox.is_empty)
        assert texts(server) == [f"Report {number}" for number in range(20)]


def test_a_store_that_the_shared_memory_refuses_is_set_aside_and_does_not_block_others(tmp_path: Path) -> None:
    port = str(free_port())
    team, here = tmp_path / "team", tmp_path / "here"
    with running(team, "--port", port) as server:
        secret = server.secret
    with relay_to(f"http://127.0.0.1:{port}/mcp", secret, here) as relay:
        relay.call("store_report", agent_id="a", session_id="s", content="")
        stored(relay, 1)
        folder = next((here / "vector-memory" / "outbox").iterdir())
        with running(team, "--port", port) as server:
            eventually(Outbox(folder).is_empty)
            assert texts(server) == ["Report 1"]
    assert len(list((folder / "refused").iterdir())) == 1


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("vm_x")
    token.chmod(0o644)
    command = [sys.executable, "-m", "vector_memory", "serve", "--remote", "http://127.0.0.1:9/mcp"]
    ended = subprocess.run(
        [*command, "--token-file", token], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 2
    assert f"chmod 600 {token}" in ended.stderr


def test_each_shared_memory_has_an_outbox_of_its_own() -> None:
    assert len({outbox_of(url) for url in ("https://a/mcp", "https://b/mcp", "https://a/mcp")}) == 2


def test_the_outbox_keeps_the_order_and_sets_aside_what_is_damaged(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    for number in range(3):
        outbox.add("store_report", {"content": str(number)})
    next(iter(sorted(tmp_path.glob("*.json")))).write_bytes(b"{")
    assert [call.arguments["content"] for call in outbox.waiting()] == ["1", "2"]
    assert len(list((tmp_path / "refused").iterdir())) == 1
    first, second = itertools.islice(outbox.waiting(), 2)
    outbox.sent(first)
    assert [call.arguments for call in outbox.waiting()] == [second.arguments]
