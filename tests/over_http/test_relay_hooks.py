"""What hooks report to a shared memory arrives, whatever happens to it, to its disk, or to the relay."""

import json
import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faults.test_full_disk import fill
from forked import finished
from hook_texts import PROMPT
from hooks.test_kept_process import REPORTS, begin, disk, report, texts
from over_http.calling import message_of, post, send_bytes
from over_http.shared import Shared
from servers import ENVELOPE, LEGACY, MODERN, QUICK
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import Registry
from waiting import eventually

__all__ = ["disk"]


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    """A shared memory that is away."""
    return Shared(tmp_path)


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
        assert waiting(shared) == REPORTS[1:]
        with shared.running() as server:
            eventually(lambda: sorted(texts(server)) == REPORTS)


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
        with shared.relay():
            eventually(lambda: texts(server) == REPORTS)


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
        eventually(lambda: texts(server) == REPORTS[:2])


def test_a_prompt_that_is_sent_twice_is_stored_once_with_the_time_at_which_it_was_heard(shared: Shared) -> None:
    """Its answer may be lost. A prompt that its user repeats is another one."""
    with shared.relay() as relay:
        relay.request("tools/call", name="hook_prompt", arguments={"session_id": "s", "prompt": PROMPT})
        (call,) = [one.body["arguments"] for one in shared.outbox.waiting()]
    with shared.running() as server:
        for heard_at in (call["heard_at"], call["heard_at"], "2026-01-02T03:04:05+00:00", "yesterday"):
            told = {"session_id": "s", "prompt": PROMPT, "heard_at": heard_at}
            assert "error" not in message_of(post(server.url, server.secret, tool="hook_prompt", arguments=told))
        eventually(lambda: len(texts(server)) == 3)


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
        eventually(lambda: texts(server))
        [stored] = texts(server)
        assert stored.rstrip("\ufffd") == f"{PROMPT} "
