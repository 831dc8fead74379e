"""Whatever a client sends, and however much of it, is answered in bounded memory (S6)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from faults.effort import effort
from servers import Server

CALLS = effort(quick=4_000, long=10_000)
MB_FOR_CALLS = CALLS / 250
"""Ten thousand waiting requests are a few megabytes of text; handed on at once they would be eighty more."""

MB_FOR_ONE = 450
"""One accepted line of 8 MB may become this much, when it holds a million values instead of a long text."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("floods")) as started:
        yield started.hello()


def test_thousands_of_calls_sent_at_once_are_all_answered_in_little_memory(server: Server) -> None:
    calls = [
        server.message("tools/call", name="list_sessions", arguments={}) if number % 20 == 0 else server.message("ping")
        for number in range(CALLS)
    ]
    assert server.call("list_sessions")["success"], "which opens the memory"
    before = server.peak_mb()
    # Nothing is read meanwhile: the server has to take all of it in while its own answers are stuck.
    server.write("".join(f"{json.dumps(call)}\n" for call in calls).encode())
    answers = [server.receive() for _ in calls]
    assert {answer["id"] for answer in answers} == {call["id"] for call in calls}
    assert all("result" in answer for answer in answers)
    assert server.peak_mb() - before < MB_FOR_CALLS


def store(server: Server, arguments: str) -> dict[str, Any]:
    """Store a report with arguments that are JSON already, without the braces; return the answer."""
    call = server.message("tools/call", name="store_report", arguments="...")
    sent = f'{{"agent_id": "a", "session_id": "s", "content": "x", {arguments}}}'
    server.write(json.dumps(call).replace('"..."', sent).encode() + b"\n")
    return server.receive()["result"]["structuredContent"]


EXCESSES = {
    "a million tags": ('"tags": [' + '"t",' * 1_000_000 + '"t"]', "tags has 1,000,001 entries: send at most 20."),
    "a million numbers as tags": ('"tags": [' + "1," * 1_000_000 + "1]", "tags must be a list of strings."),
    "a million lists": ('"metadata": {"a": [' + "[]," * 1_000_000 + "[]]}", "metadata is "),
    "nesting that can be read": ('"metadata": {"a": ' + "[" * 150 + "]" * 150 + "}", "metadata is nested too deeply"),
    "nesting as text": (f'"metadata": "{"[" * 100_000}"', "metadata must be an object."),
    "a long title": ('"title": "' + "t" * 8_000_000 + '"', "title is 8,000,000 characters long"),
}


@pytest.mark.parametrize(("arguments", "message"), EXCESSES.values(), ids=EXCESSES)
def test_an_excess_is_refused_with_a_clear_error(server: Server, arguments: str, message: str) -> None:
    answer = store(server, arguments)
    assert (answer["success"], answer["error"]) == (False, "ValidationError")
    assert answer["message"].startswith(message)


def test_after_all_that_the_server_works_and_has_not_grown_out_of_bounds(server: Server) -> None:
    assert server.call("list_sessions")["success"]
    assert server.peak_mb() < MB_FOR_ONE + 120
