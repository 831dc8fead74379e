"""Resources, prompts, completions and progress of a real server process, in both eras."""

import json
from collections.abc import Iterator

import pytest

from servers import LEGACY, MODERN, Server

REPORT = {"agent_id": "writer", "session_id": "team/é", "content": "# T\n\n" + "Some words to embed. " * 1_500}
URI = "memory://sessions/team%2F%C3%A9"


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("reading")
    # Progress is that of embedding, which the receipt waits for.
    with Server(folder, version=request.param, VECTOR_MEMORY_EMBED_IN_BACKGROUND="0") as started:
        yield started.hello()


def test_what_is_stored_can_be_listed_read_prompted_and_completed(server: Server) -> None:
    server.call("store_report", **REPORT)
    templates = server.request("resources/templates/list")["result"]["resourceTemplates"]
    assert "memory://sessions/{session_id}" in [template["uriTemplate"] for template in templates]
    [session] = server.request("resources/read", uri=URI)["result"]["contents"]
    assert (session["uri"], json.loads(session["text"])["session_id"]) == (URI, "team/é")
    [memory] = server.request("resources/read", uri="memory://memories/1?offset=3")["result"]["contents"]
    assert memory["text"].endswith(REPORT["content"][3:])
    assert len(server.request("prompts/list")["result"]["prompts"]) == 4
    prompt = server.request("prompts/get", name="continue_session", arguments={"session_id": "team/é"})["result"]
    assert [message["content"]["type"] for message in prompt["messages"]] == ["text", "resource"]
    assert prompt["messages"][1]["content"]["resource"]["text"] == session["text"]
    assert server.request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "hand_over"},
        argument={"name": "agent_id", "value": "w"},
        context={"arguments": {"session_id": "team/é"}},
    )["result"]["completion"]["values"] == ["writer"]


def test_what_cannot_be_read_is_an_error_of_the_protocol_that_says_what_to_do(server: Server) -> None:
    for method, params in {
        "resources/read": {"uri": "memory://sessions/nowhere"},
        "prompts/get": {"name": "continue_session", "arguments": {"session_id": "nowhere"}},
    }.items():
        error = server.request(method, **params)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith("Nothing is stored in this session")


def test_progress_comes_before_the_answer_and_only_if_it_was_asked_for(server: Server) -> None:
    message = server.message("tools/call", name="store_report", arguments=REPORT | {"session_id": "watched"})
    message["params"]["_meta"] = {**message["params"].get("_meta", {}), "progressToken": "p1"}
    server.send(message)
    told = []
    while (received := server.receive()).get("id") != message["id"]:
        assert received["method"] == "notifications/progress"
        assert received["params"]["progressToken"] == "p1"
        told.append((received["params"]["progress"], received["params"]["total"]))
    total = received["result"]["structuredContent"]["passages_created"]
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert len(told) > 1
    quiet = server.ask_tool("store_report", **{**REPORT, "agent_id": "another"})
    assert server.receive()["id"] == quiet
