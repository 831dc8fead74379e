"""A client without HTTP in front of a shared memory that comes and goes."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.effort import effort
from forked import finished
from over_http.processes import Running
from over_http.shared import Shared
from servers import LEGACY, MODERN, Server
from waiting import eventually

STORES = effort(quick=6, long=60)


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    """A shared memory that is away."""
    return Shared(tmp_path)


def stored(relay: Server, number: int, session: str = "s") -> dict[str, Any]:
    """Store a report."""
    text = f"# Report {number}\n\nFound {number}."
    return relay.call("store_report", agent_id="a", session_id=session, content=text)


def texts(server: Running, session: str = "s") -> list[str]:
    """Return the titles of the reports in the shared memory, in the order in which they were stored."""
    found = server.call("search_changes", session_id=session, limit=100)
    assert not found["has_more"]
    return [one["title"] for one in found["results"]]


def titles(count: int) -> list[str]:
    return [f"Report {number}" for number in range(count)]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_relay_answers_as_the_shared_memory_does(shared: Shared, version: str) -> None:
    with shared.running(), shared.relay(version) as relay:
        assert stored(relay, 1)["memory_id"] == 1
        found = relay.call("search_reports_specific_chunks", query="found")
        assert "Found 1." in found["results"][0]["chunk_content"]
        assert relay.call("get_memory_by_id", memory_id=99)["error"] == "ValidationError"
        memory = relay.request("resources/read", uri="memory://memories/1")["result"]["contents"][0]
        assert "Found 1." in memory["text"]
        arguments = {"session_id": "s"}
        prompt = relay.request("prompts/get", name="continue_session", arguments=arguments)["result"]["messages"]
        assert '"s"' in prompt[0]["content"]["text"]
        names = {tool["name"] for tool in relay.request("tools/list")["result"]["tools"]}
        assert "store_report" in names
        assert "cleanup_old_memories" not in names, "the token does not permit it"


def test_without_the_shared_memory_a_search_fails_at_once_and_a_store_is_kept_and_sent_in_order(shared: Shared) -> None:
    with shared.relay() as relay:
        failed = relay.call("search_reports_specific_chunks", query="found")
        assert failed["message"] == f"The shared memory at {shared.url} cannot be reached: tell the user."
        kept = [stored(relay, number) for number in range(5)]
        assert all(one["success"] and one["queued"] for one in kept)
        assert len(list(shared.outbox.waiting())) == 5
        with shared.running() as server:
            eventually(shared.outbox.is_empty)
            assert stored(relay, 5)["success"]
            eventually(shared.outbox.is_empty)
            assert texts(server) == titles(6)


def test_hooks_are_never_shown_an_error_and_what_they_store_arrives(shared: Shared) -> None:
    with shared.relay() as relay:
        arguments = {"session_id": "mine", "prompt": "Why does the nightly import fail?"}
        answer = relay.request("tools/call", name="hook_prompt", arguments=arguments)["result"]
        assert (answer["content"][0]["text"], answer.get("isError", False)) == ("{}", False)
        with shared.running() as server:
            eventually(lambda: server.call("search_input_prompts", session_id="mine")["results"])
            found = server.call("search_input_prompts", session_id="mine")["results"]
            assert [one["content"] for one in found] == ["Why does the nightly import fail?"]
            eventually(shared.outbox.is_empty)
            later = {"session_id": "another", "prompt": "Go on where we stopped."}
            told = relay.request("tools/call", name="hook_prompt", arguments=later)["result"]["content"][0]["text"]
            assert "Why does the nightly import fail?" in told


def test_what_killed_relays_have_kept_is_sent_once_and_in_order_by_whichever_runs_later(shared: Shared) -> None:
    for first in range(0, 20, 10):
        with shared.relay() as relay:  # killed at the end
            for number in range(first, first + 10):
                stored(relay, number)
    with shared.running() as server:
        with shared.relay(), shared.relay():
            eventually(shared.outbox.is_empty)
        assert texts(server) == titles(20)


def test_nothing_is_lost_doubled_or_swapped_while_relays_and_the_shared_memory_are_killed(shared: Shared) -> None:
    moments = random.Random(18)
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            with shared.running() as server:
                ended.wait(moments.uniform(0.2, 1.5))
                server.process.kill()

    def store(session: str) -> list[str]:
        acknowledged: list[str] = []
        while len(acknowledged) < STORES:
            with shared.relay() as relay:  # killed at the end
                for _ in range(moments.randint(1, 6)):
                    answer = stored(relay, len(acknowledged), session)
                    assert answer["success"] or answer.get("memory_id"), answer
                    acknowledged.append(f"Report {len(acknowledged)}")
        return acknowledged

    sessions = ("first", "second")
    with ThreadPoolExecutor() as threads:
        memory = threads.submit(come_and_go)
        try:
            acknowledged = list(threads.map(store, sessions))
        finally:
            ended.set()
        memory.result()
    with shared.running() as server, shared.relay():
        eventually(shared.outbox.is_empty)
        assert [texts(server, session) for session in sessions] == acknowledged
    assert not (shared.folder / "refused").exists()


def test_a_store_that_the_shared_memory_refuses_is_set_aside_and_does_not_block_others(shared: Shared) -> None:
    with shared.relay() as relay:
        relay.call("store_report", agent_id="a", session_id="s", content="")
        stored(relay, 1)
        with shared.running() as server:
            eventually(shared.outbox.is_empty)
            assert texts(server) == ["Report 1"]
    [(_, reason)] = shared.outbox.refused()
    assert reason.startswith("content must not be empty")


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("vm_x")
    token.chmod(0o644)
    ended = finished("serve", "--remote", "http://127.0.0.1:9/mcp", "--token-file", token)
    assert ended.returncode == 2
    assert f"chmod 600 {token}" in ended.stderr
