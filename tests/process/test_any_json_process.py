"""Whatever JSON a client sends as an argument, no tool ends in what nobody foresaw."""

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any_json import json_objects, values
from faults.effort import effort
from servers import MODERN, Server
from tool_calls import SESSION_TOOLS, good_arguments
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Toolset

STORING = [tool for tool in SESSION_TOOLS if "metadata" in tool.parameters["properties"]]
PARAMETERS = [(tool, name) for tool in offered(tuple(Toolset)) for name in tool.parameters["properties"]]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("json")
    places = {"VECTOR_MEMORY_MEMORY_DIR": str(folder / "notes"), "VECTOR_MEMORY_DB_DIR": str(folder / "index")}
    with Server(folder, version=MODERN, VECTOR_MEMORY_TOOLSETS="all", **places) as started:
        yield started.hello()


@settings(max_examples=effort(quick=20, long=500))
@given(st.sampled_from(STORING), json_objects, st.booleans())
@example(STORING[0], {"category": [1], "parent_report_id": 10**30}, False)
@example(STORING[4], {"parent_report_id": [1]}, True)
def test_metadata_come_back_equal_over_the_wire_or_are_refused(
    server: Server, tool: MemoryTool, metadata: dict[str, object], as_text: bool
) -> None:
    sent = json.dumps(metadata) if as_text else metadata
    arguments = good_arguments(tool) | {"content": f"Text {next(NUMBERS)}.", "metadata": sent}
    answer = server.call(tool.name, **arguments)
    if answer["success"]:
        found = server.call("get_memory_by_id", memory_id=answer["memory_id"])["memory"]["metadata"]
        assert {name: found[name] for name in metadata} == metadata
    else:
        assert answer["error"] == "ValidationError"
        assert "metadata" in answer["message"]


@given(st.sampled_from(PARAMETERS), values)
def test_any_value_in_any_parameter_is_taken_or_refused(
    server: Server, parameter: tuple[MemoryTool, str], value: object
) -> None:
    tool, name = parameter
    answer = server.request("tools/call", name=tool.name, arguments=good_arguments(tool) | {name: value})
    body = answer["result"]["structuredContent"]
    assert body["success"] or body["error"] in ("ValidationError", "MemoryError")
    assert "unexpected" not in (body["message"] or "")


@settings(max_examples=effort(quick=20, long=500))
@given(st.sampled_from(["resources/read", "prompts/get", "completion/complete", "tools/call"]), json_objects, values)
def test_any_parameters_of_other_requests_are_answered(
    server: Server, method: str, params: dict[str, object], value: object
) -> None:
    named = {"uri": "memory://memories/1", "name": "hand_over", "ref": {"type": "ref/prompt", "name": "hand_over"}}
    others = {"arguments": value, "argument": {"name": "session_id", "value": value}, "context": {"arguments": params}}
    assert {"result", "error"} & server.request(method, **named | others | params).keys()
    assert server.call("list_sessions")["success"]
