"""Relays and the shared memory, killed, full and hanging: what hooks hand over arrives once, in order."""

import json
import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faults.effort import effort
from faults.test_full_disk import fill
from forked import finished
from hook_texts import PROMPT
from hooks.test_kept_process import REPORTS, begin, disk, report
from hooks.test_kept_process import texts as hook_texts_of
from over_http.calling import message_of, post, send_bytes
from over_http.processes import Running
from over_http.shared import Shared
from servers import ENVELOPE, LEGACY, MODERN, QUICK, Server
from vector_memory.extras.teams.registry import Quota, Registry
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


__all__ = ["disk"]


def waiting(shared: Shared) -> list[str]:
    """Return what waits on the machine of the relay."""
    return [one.body["arguments"]["last_assistant_message"] for one in shared.outbox.waiting()]


def test_reports_taken_while_the_disk_of_the_server_was_full_arrive(tmp_path: Path, disk: Path) -> None:
    shared = Shared(tmp_path, disk)
    with shared.relay() as relay:
        with shared.running(XDG_STATE_HOME=str(disk)) as server:
            begin(server, relay)
            ballast = fill(disk)
            for text in REPORTS[1:]:
                report(relay, text)
            server.process.kill()
            server.process.wait()
        ballast.unlink()
        assert waiting(shared) == [], "the server has kept them elsewhere"
        with shared.running() as server:
            eventually(lambda: sorted(hook_texts_of(server)) == REPORTS)


IMPATIENT = """
from vector_memory.cli.main import main
from vector_memory.writing import outbox

outbox.SECONDS_UNTIL_ROOM = 0.5
main()
"""
"""A relay that does not leave a full namespace alone for half a minute."""


def test_reports_that_a_full_namespace_refuses_wait_block_no_others_and_the_doctor_names_them(shared: Shared) -> None:
    registry = Registry(shared.team)
    with shared.running() as server:
        with shared.relay() as relay:
            begin(server, relay)
            registry.set_quota("red", Quota(memories=1))
            eventually(lambda: server.call("store_report", content="x", session_id="t")["error"] == "QuotaExceeded")
            for text in REPORTS[1:]:
                report(relay, text)
            refused = relay.call("store_report", agent_id="a", session_id="s", content="# One more\n\nText.")
            assert refused["error"] == "QuotaExceeded"
            assert relay.call("search_reports_specific_chunks", query="lock")["results"]
        assert waiting(shared) == REPORTS[1:]
        said = finished("doctor", "--database-path", shared.team / "own.db", env={**os.environ, **QUICK, **shared.home})
        for part in (f"For {shared.url}", "4 texts wait since", "may hold 1 memories and is full"):
            assert part in " ".join(said.stdout.split())
        registry.set_quota("red", Quota())
        with shared.relay(start=["-c", IMPATIENT]):
            eventually(lambda: hook_texts_of(server) == REPORTS)


def test_what_a_hook_reports_is_on_the_disk_before_a_server_that_hangs_is_called(shared: Shared) -> None:
    with socket.create_server(("127.0.0.1", int(shared.port))) as hanging, shared.relay() as relay:
        fields = {"session_id": "s", "agent_type": "explorer", "last_assistant_message": REPORTS[0]}
        hook = relay.ask_tool("hook_subagent", **fields)
        with closing(hanging.accept()[0]):
            assert waiting(shared) == REPORTS[:1]
            assert relay.receive()["id"] == hook
            report(relay, REPORTS[1])
            relay.process.kill()
            relay.process.wait()
    with shared.running() as server, shared.relay():
        eventually(lambda: hook_texts_of(server) == REPORTS[:2])


def test_a_prompt_that_is_sent_twice_is_stored_once_with_the_time_at_which_it_was_heard(shared: Shared) -> None:
    """Its answer may be lost. A prompt that its user repeats is another one."""
    with shared.relay() as relay:
        relay.request("tools/call", name="hook_prompt", arguments={"session_id": "s", "prompt": PROMPT})
        (call,) = [one.body["arguments"] for one in shared.outbox.waiting()]
    with shared.running() as server:
        for heard_at in (call["heard_at"], call["heard_at"], "2026-01-02T03:04:05+00:00", "yesterday"):
            told = {"session_id": "s", "prompt": PROMPT, "heard_at": heard_at}
            assert "error" not in message_of(post(server.url, server.secret, tool="hook_prompt", arguments=told))
        eventually(lambda: len(hook_texts_of(server)) == 3)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("half", [b"\\ud83d", b"\xed\xa0\xbd"])
def test_a_client_over_http_may_cut_a_prompt_there_too(shared: Shared, half: bytes, era: str) -> None:
    with shared.running() as server:
        arguments = {"session_id": "s", "prompt": f"{PROMPT} HALF"}
        params: dict[str, Any] = {
            "name": "hook_prompt",
            "arguments": arguments,
            **({"_meta": ENVELOPE} if era == MODERN else {}),
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        answer = send_bytes(server.url, server.secret, "tools/call", params, body.replace(b"HALF", half))
        assert message_of(answer)["result"]["content"][0]["text"] == "{}"
        eventually(lambda: hook_texts_of(server))
        [stored] = hook_texts_of(server)
        assert stored.rstrip("\ufffd") == f"{PROMPT} "
