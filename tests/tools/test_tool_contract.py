"""The contract (tests/contract): parameters, defaults and result keys of the tools, and how they are listed."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import Tool

from eras import Call
from tool_calls import ADDED_TOOLS, SESSION_TOOLS, wire_list
from vector_memory.server import early
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.settings import ServerOptions, Toolset
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.tokens import find_token_counter, has_cl100k

pytestmark = pytest.mark.anyio

CONTRACT: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "contract" / "session_tools.json").read_text()
)["tools"]

ADDED_PARAMETERS = {
    "reconstruct_document": {"offset"},
    "get_memory_by_id": {"offset"},
    "write_document_to_file": {"overwrite"},
    "load_session_context_for_task": {"max_tokens"},
    "store_session_context": {"agent_id"},
    "store_input_prompt": {"agent_id"},
    "store_report_observation": {"corrects"},
}
"""What decisions 22 and 28 added to the contract, and what agents send that know the original server."""


HAVE_DEFAULTS = {"agent_id", "session_id", "session_iter"}
"""Names that the contract requires and a caller may leave out of a store; the iteration also of a task's context."""


def required_by_contract(tool: str) -> set[str]:
    """Return the parameters that a call needs."""
    required = set(CONTRACT[tool]["required"])
    if tool.startswith("store_"):
        return required - HAVE_DEFAULTS
    return required - {"session_iter"} if tool == "load_session_context_for_task" else required - asks_several(tool)


def asks_several(tool: str) -> set[str]:
    """Return the name of the question, if a caller may send several instead."""
    return {"query"} if tool in SEVERAL else set()


SEVERAL = {
    "search_reports_specific_chunks",
    "search_reports_section_context",
    "search_reports_full_documents",
    "search_working_memory_specific_chunks",
    "search_knowledge_base_specific_chunks",
}
"""The tools that take several questions in one call."""

CONVERSATIONAL = {"search_input_prompts", "search_working_memory_specific_chunks"}
"""The tools whose hits may be turns of a conversation."""


def added_parameters(tool: str) -> set[str]:
    """Return the parameters that a tool has beyond the contract."""
    time = {"created_after", "created_before"}
    if tool == "list_sessions":
        return time
    if tool.startswith("store_"):
        return {"supersedes", "ttl_days", "sources", *ADDED_PARAMETERS.get(tool, ())}
    if not tool.startswith("search_"):
        return ADDED_PARAMETERS.get(tool, set())
    added = {"offset", "max_tokens", *time}
    if tool in {"search_session_context", "search_input_prompts"}:
        added |= {"agent_id", "query", "detail"}
    else:
        added.add("prefer")
    if tool in SEVERAL:
        added.add("queries")
    if tool in CONVERSATIONAL:
        added.add("neighbours")
    if tool.endswith("_full_documents"):
        added |= {"order", "detail"}
    if tool.endswith(("_full_documents", "_context", "_prompts", "_system_memory")) and "section" not in tool:
        added.add("cursor")
    if tool.endswith(("_specific_chunks", "_section_context")):
        added.add("search_mode")
    return added


CUT = {"content_length", "content_end"}
"""Where a text was cut to fit (decision 22)."""

OBSERVATIONS = {"observations"}
"""Corrections of the reports in an answer, and additions."""

SUCCESSION = {"superseded_by", "supersedes"}
"""What replaced a memory, and what it replaced."""

SEARCHED = {
    *("omitted", "next_offset", "confidence", "weak", "superseded", "pending", "elsewhere", "best_superseded", "trace"),
}

CAME = {"came_from", "trust"}
PROVENANCE = {"memory_type", "agent_id", "session_id", "session_iter", "task_code", "title", "created_at", *CAME}
"""Where a piece of text comes from (requirement S7)."""

REPORT = """# Storage

Introductory words.

## Database

The database keeps every report in one file.

## Network

Nothing is sent anywhere.
"""


def added_keys(tool: str) -> set[str]:
    """Return the keys that answers have beyond the contract."""
    if tool.endswith(("_specific_chunks", "_section_context")):
        return SEARCHED | PROVENANCE
    if tool.startswith("search_"):
        return SEARCHED | {"lines", "next_cursor"}
    if tool.startswith("store_"):
        return {"passages_created", "token_count", "vectors", "redacted", "expires_at"}
    added = {
        "reconstruct_document": CUT
        | CAME
        | OBSERVATIONS
        | SUCCESSION
        | {"agent_id", "session_id", "created_at", "evidence"},
        "expand_chunk_context": OBSERVATIONS
        | SUCCESSION
        | CAME
        | {"content_end", "memory_type", "agent_id", "session_id", "created_at"},
        "load_session_context_for_task": OBSERVATIONS | {"recent_observations", "omitted", "superseded", "pinned"},
        "get_memory_by_id": OBSERVATIONS,
        "get_session_stats": {"latest_iteration", "without_vectors"},
        "cleanup_old_memories": {"memories_kept"},
    }
    return added.get(tool, set())


def added_item_keys(tool: str) -> set[str]:
    """Return the keys of single results beyond the contract."""
    if tool.endswith(("_specific_chunks", "_section_context")):
        return PROVENANCE | {"content_start", "content_end", "sources", "score", "match", "later"} | OBSERVATIONS
    if tool.startswith("search_"):
        return CUT | OBSERVATIONS | {"sources", "score", "match", "later"}
    if tool == "get_memory_by_id":
        return CUT
    return {"agents", "agent_count"} if tool == "list_sessions" else set()


def first_item(body: dict[str, Any]) -> dict[str, Any]:
    """Return the one result, session, chunk or memory of a body."""
    listed = body.get("results") or body.get("sessions") or body.get("chunks") or [body.get("memory")]
    item: dict[str, Any] = listed[0]
    return item


def examples() -> dict[str, dict[str, Any]]:
    """Return arguments for every tool, in an order in which all of them succeed on an empty memory."""
    here = {"session_id": "s", "session_iter": "v1"}
    agent = {"agent_id": "a", "session_id": "s"}
    stores = {
        "store_session_context": here | {"content": "The state.", "task_code": "t"},
        "store_input_prompt": here | {"content": "The prompt.", "title": "T", "description": "D"},
        "store_system_memory": agent | {"content": "make database", "tags": ["command"]},
        "store_report": agent | {"content": REPORT, "metadata": {"source": "test"}},
        "store_report_observation": agent | {"content": "It is true.", "parent_report_id": "4"},
        "store_working_memory": agent | {"content": "Working on the database.", "session_iter": 2},
        "store_knowledge_base": {"agent_id": "a", "title": "T", "content": "A database.", "category": "c"},
    }
    searches = {
        name: {"query": "database"}
        if "query" in {**contract["optional"], **dict.fromkeys(contract["required"])}
        else here
        for name, contract in CONTRACT.items()
        if name.startswith("search_")
    }
    others: dict[str, dict[str, Any]] = {
        "load_session_context_for_task": here,
        "expand_chunk_context": {"chunk_id": "1"},
        "reconstruct_document": {"memory_id": 4},
        "get_memory_by_id": {"memory_id": "4"},
        "get_session_stats": {"session_id": "s"},
        "list_sessions": {},
        "write_document_to_file": {"memory_id": 4, "output_path": "report.md"},
        "delete_memory": {"memory_id": 5},
        "cleanup_old_memories": {},
    }
    return stores | searches | others


async def test_parameters_are_the_contracts(client: Client) -> None:
    """Every tool takes exactly the contract's parameters, with its defaults, and what the decisions added."""
    tools = {tool.name: tool.input_schema for tool in await client.list_tools()}
    assert set(tools) == {*CONTRACT, *ADDED_TOOLS}
    for name, contract in CONTRACT.items():
        properties = tools[name]["properties"]
        optional = {*contract["optional"], *contract["extra_optional"], *added_parameters(name)}
        assert set(tools[name].get("required", [])) == required_by_contract(name), name
        assert set(properties) == {*contract["required"], *optional}, name
        for parameter, default in contract["optional"].items():
            assert properties[parameter].get("default") == default, f"{name}.{parameter}"


def test_a_parameter_has_one_type_whatever_a_server_offers() -> None:
    """Gemini refuses lists of types, alternatives and references."""
    described = early.description()
    tools = [tool for one in described["configurations"].values() for tool in early.tools_of(described, one)]
    schemas = [schema for tool in tools for schema in tool["inputSchema"]["properties"].values()]
    assert schemas
    assert [schema for schema in schemas if not has_one_type(schema)] == []


def has_one_type(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("type"), str) and ("items" not in schema or has_one_type(schema["items"]))


@pytest.mark.parametrize("sent", [1, "1", 1.0])
async def test_ids_may_be_text_or_number(call: Call, sent: object) -> None:
    """Whatever the schema names."""
    await call("store_report", content=REPORT, session_id="s", session_iter=sent)
    calls: dict[str, dict[str, object]] = {
        "store_report_observation": {"content": "Wrong.", "session_id": "s", "parent_report_id": sent},
        "get_memory_by_id": {"memory_id": sent},
        "expand_chunk_context": {"chunk_id": sent},
        "search_reports_specific_chunks": {"query": "storage", "session_id": "s", "session_iter": sent},
        "search_changes": {"session_id": "s", "since": sent},
    }
    assert [name for name, given in calls.items() if (await call(name, **given)).is_error] == []


async def test_every_tool_answers_with_the_contracts_keys(call: Call, client: Client) -> None:
    """Every tool succeeds, and its answer has the contract's keys, and nothing but them and documented additions."""
    schemas = {tool.name: tool.output_schema for tool in await client.list_tools()}
    assert set(examples()) == set(CONTRACT)
    for name, arguments in examples().items():
        answer = await call(name, **arguments)
        body = answer.structured_content
        assert not answer.is_error, f"{name}: {body}"
        assert body["success"] is True
        assert body["error"] is None
        assert set(CONTRACT[name]["result_keys"]) <= set(body), name
        assert {*CONTRACT[name]["result_keys"], *added_keys(name)} == set((schemas[name] or {})["properties"]), name
        if "result_item_keys" in CONTRACT[name]:
            keys, item = set(CONTRACT[name]["result_item_keys"]), first_item(body)
            assert keys <= set(item) <= keys | added_item_keys(name), name


async def test_text_content_repeats_the_body(call: Call) -> None:
    """A client that reads only text gets the same answer as one that reads structured content."""
    for name, arguments in (("list_sessions", {}), ("list_sessions", {"limit": 0})):
        answer = await call(name, **arguments)
        assert [json.loads(block.text) for block in answer.content] == [answer.structured_content]


async def test_arguments_reach_the_store(call: Call) -> None:
    """Everything that can be stored comes back as it was sent."""
    sent = {
        "agent_id": "a",
        "session_id": "s",
        "session_iter": "v3",
        "task_code": "t",
        "title": "T",
        "description": "D",
        "tags": ["x", "y"],
        "metadata": {"deep": {"er": [1, None]}},
        "content": "Words.",
    }
    await call("store_report", agent_id="a", session_id="s", content="A report.")
    stored = await call("store_report_observation", **sent, parent_report_id="1")
    found = await call("get_memory_by_id", memory_id=stored.structured_content["memory_id"])
    memory = found.structured_content["memory"]
    expected = sent | {"session_iter": 3, "metadata": {"deep": {"er": [1, None]}, "parent_report_id": 1}}
    assert {key: memory[key] for key in expected} == expected


@pytest.mark.parametrize("kind", ["session_context", "input_prompt"])
async def test_agents_of_the_original_server_may_name_themselves(call: Call, kind: str) -> None:
    """State and prompts are stored under the agent that is sent, and found by it; the main agent is the default."""
    search = "search_session_context" if kind == "session_context" else "search_input_prompts"
    here = {"session_id": "s", "session_iter": "v1"}
    planners = (await call(f"store_{kind}", **here, content="A plan.", agent_id="planner")).structured_content
    mains = (await call(f"store_{kind}", **here, content="A goal.")).structured_content
    assert (planners["agent_id"], mains["agent_id"]) == ("planner", "main-orchestrator")
    for agent, found in (("planner", ["A plan."]), (None, ["A goal.", "A plan."]), ("nobody", [])):
        answer = (await call(search, **here, agent_id=agent)).structured_content
        assert [result["content"] for result in answer["results"]] == found


async def test_lists_and_objects_may_come_as_json_text(call: Call) -> None:
    """Tags and metadata that a clumsy client sent as JSON text are read as what they mean."""
    stored = await call(
        "store_report", agent_id="a", session_id="s", content="x", tags='["p", "q"]', metadata='{"k": [1]}'
    )
    found = await call("get_memory_by_id", memory_id=stored.structured_content["memory_id"])
    memory = found.structured_content["memory"]
    assert (memory["tags"], memory["metadata"]) == (["p", "q"], {"k": [1]})


@pytest.mark.parametrize("one", [1, 1.0, "1", "1.0"])
async def test_a_whole_number_is_taken_however_a_client_writes_it(call: Call, one: float | str) -> None:
    await call("store_report", agent_id="a", session_id="s", session_iter=one, content="A report.")
    assert (await call("get_memory_by_id", memory_id=one)).structured_content["memory"]["session_iter"] == 1
    found = await call("search_reports_specific_chunks", query="report", session_id="s", session_iter=one, limit=one)
    assert len(found.structured_content["results"]) == 1


async def test_null_means_omitted(call: Call) -> None:
    """A parameter that is null counts as left out, also where it has a default."""
    assert (await call("list_sessions", limit=None, agent_id=None)).structured_content["success"] is True


async def test_documents_come_by_relevance_with_a_query_and_by_time_without(call: Call) -> None:
    """Whole documents come best match first if there is a query, newest first if not; `order` decides otherwise."""
    for content in ("All about gardens and roses.", "All about engines and pistons."):
        await call("store_report", agent_id="a", session_id="s", content=content)

    async def found(**arguments: object) -> list[int]:
        answer = await call("search_reports_full_documents", **arguments)
        return [found["id"] for found in answer.structured_content["results"]]

    assert (await found(query="roses in gardens"))[0] == 1
    assert (await found(query="roses in gardens", order="relevance"))[0] == 1
    assert await found(query="roses in gardens", order="recent") == [2, 1]
    assert await found() == await found(order="recent") == [2, 1]


async def test_an_export_replaces_a_file_only_on_request(call: Call) -> None:
    """A file that is there is kept, unless overwrite is sent."""
    await call("store_report", agent_id="a", session_id="s", content="x")
    export = {"memory_id": 1, "output_path": "a.md"}
    answers = [await call("write_document_to_file", **export, **more) for more in ({}, {}, {"overwrite": True})]
    assert [answer.structured_content["success"] for answer in answers] == [True, False, True]


SNAPSHOTS = Path(__file__).parent.parent / "contract" / "tools"

MAX_TOKENS = {Toolset.SESSION: 4_700, Toolset.TAGGED: 1_500}
CHARACTERS_PER_TOKEN = {Toolset.SESSION: 4.72, Toolset.TAGGED: 4.66}
"""Measured with cl100k_base on these schemas."""

MAX_ADDED_TOKENS = 400
"""What each tool beyond the contract may cost."""

READ = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
STORE = READ | {"readOnlyHint": False}
DESTROY = STORE | {"destructiveHint": True}
HINTS = {
    "write_document_to_file": DESTROY,
    "delete_memory": DESTROY,
    "delete_by_memory_id": DESTROY,
    "cleanup_old_memories": DESTROY | {"idempotentHint": False},
    "clear_old_memories": DESTROY | {"idempotentHint": False},
    "memory_write": STORE | {"idempotentHint": False},
}

every_family = pytest.mark.parametrize("family", Toolset)


async def tools_of(store: SessionMemoryStore, family: Toolset, era: str = "legacy", **options: object) -> list[Tool]:
    server = create_server(lambda: nullcontext(store), ServerOptions(toolsets=family, **options), nullcontext)
    async with Client(server, mode=era) as client:
        listed = await client.list_tools()
        assert await client.list_tools() == listed
        return listed


@every_family
async def test_each_tool_is_as_in_its_snapshot(store: SessionMemoryStore, family: Toolset, era: str) -> None:
    """Nothing that a client sees of a tool changes unnoticed; after a wanted change run with UPDATE_SNAPSHOTS=1."""
    seen = {
        tool.name: tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"})
        for tool in await tools_of(store, family, era)
    }
    assert list(seen) == [tool.name for tool in offered([family])]
    if os.environ.get("UPDATE_SNAPSHOTS"):
        for old in (SNAPSHOTS / family).glob("*.json"):
            old.unlink()
        for name, tool in seen.items():
            (SNAPSHOTS / family / f"{name}.json").write_text(json.dumps(tool, indent=2, sort_keys=True) + "\n")
    assert seen == {path.stem: json.loads(path.read_text()) for path in (SNAPSHOTS / family).glob("*.json")}


@every_family
async def test_each_tool_and_parameter_is_described_and_the_hints_say_what_it_does(
    store: SessionMemoryStore, family: Toolset
) -> None:
    for tool in await tools_of(store, family):
        assert tool.title
        assert len(tool.description.encode()) in range(1, 200 if family == Toolset.FILES else 2048)
        for schema in tool.input_schema["properties"].values():
            assert schema["description"], tool.name
            assert not ("default" in schema and schema["description"].startswith("Default")), tool.name
        expected = HINTS.get(tool.name, STORE if tool.name.startswith("store_") else READ)
        assert tool.annotations.model_dump(by_alias=True, exclude_none=True) == expected, tool.name


@every_family
async def test_output_schemas_admit_failures(store: SessionMemoryStore, family: Toolset) -> None:
    """Every output schema is an object of which only `success` must be there, so that a failed body fits it."""
    for tool in await tools_of(store, family):
        assert (tool.output_schema["type"], tool.output_schema["required"]) == ("object", ["success"])
        for name in ("message", "error"):
            assert set(tool.output_schema["properties"][name]["type"]) == {"string", "null"}


@every_family
async def test_a_read_only_server_lists_the_tools_that_change_nothing(
    store: SessionMemoryStore, family: Toolset
) -> None:
    readable = [tool.name for tool in await tools_of(store, family) if tool.annotations.read_only_hint]
    assert [tool.name for tool in await tools_of(store, family, read_only=True)] == readable


@pytest.mark.parametrize("family", MAX_TOKENS)
def test_the_list_is_short_and_holds_nothing_that_an_agent_pays_for_and_learns_nothing_from(family: Toolset) -> None:
    listed = wire_list() if family == Toolset.SESSION else wire_list(offered([family]))
    assert len(listed) < MAX_TOKENS[family] * CHARACTERS_PER_TOKEN[family]
    parameters = json.dumps([tool.parameters for tool in offered([family])], separators=(",", ":"))
    assert all(noise not in parameters for noise in ("anyOf", '"default":null', "additionalProperties", "$ref"))
    assert '"title":"' not in parameters


@pytest.mark.skipif(not has_cl100k(), reason="cl100k_base is not on disk")
def test_list_is_short_in_tokens() -> None:
    """The list of the contract's tools costs an agent less than 4,700 tokens, and each of ours less than 400."""
    count = find_token_counter(None)
    assert count(wire_list()) < MAX_TOKENS[Toolset.SESSION]
    for tool in SESSION_TOOLS:
        assert tool.name not in ADDED_TOOLS or count(wire_list([tool])) < MAX_ADDED_TOKENS
