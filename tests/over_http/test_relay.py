"""A client without HTTP in front of a shared memory that comes and goes."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.effort import effort
from over_http.processes import Running
from over_http.shared import Shared
from servers import Server
from waiting import eventually


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
        while len(acknowledged) < effort(quick=6, long=60):
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
