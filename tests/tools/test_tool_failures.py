"""Failures (requirement P3): an error for the client, the seed's body for the caller, and nothing has changed."""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jsonschema
import pytest
from fastmcp import Client

from eras import Call, Rows
from tool_calls import SESSION_TOOLS, good_arguments
from vector_memory.answers.models import Result
from vector_memory.errors import (
    ChunkingError,
    DatabaseError,
    DatabaseLockError,
    MemoryStorageError,
    SearchError,
    VectorMemoryError,
)
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.settings import ServerOptions, Settings, Toolset
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

REPORT = {"agent_id": "a", "session_id": "s", "content": "A report on databases."}
SECRET = "hunter2-stored-content"  # noqa: S105 - a marker for stored content

BAD_INPUT: dict[str, tuple[str, dict[str, Any], str]] = {
    "missing": ("store_report", {"agent_id": "a", "session_id": "s"}, "content is required."),
    "missing session": (
        "search_input_prompts",
        {},
        'session_id is required: send the id of a session, or "last" for the one before this.',
    ),
    "missing several": ("store_knowledge_base", {}, "title is required. content is required."),
    "null where required": ("get_memory_by_id", {"memory_id": None}, "memory_id is required."),
    "wrong type, text": ("store_report", REPORT | {"content": 5}, "content must be a string."),
    "wrong type, object as text": ("store_report", REPORT | {"content": {"a": 1}}, "content must be a string."),
    "wrong type, number": ("list_sessions", {"limit": "many"}, "limit must be an integer."),
    "wrong type, fraction": ("list_sessions", {"limit": 2.5}, "limit must be an integer."),
    "wrong type, yes or no": ("cleanup_old_memories", {"dry_run": "perhaps"}, "dry_run must be true or false."),
    "wrong type, list": ("store_report", REPORT | {"tags": "not json"}, "tags must be a list of strings."),
    "wrong type in a list": ("store_report", REPORT | {"tags": ["a", 1]}, "tags must be a list of strings."),
    "wrong type, object": ("store_report", REPORT | {"metadata": "[1]"}, "metadata must be an object."),
    "wrong choice": ("search_reports_full_documents", {"order": "newest"}, "order must be one of recent, relevance."),
    "two at once": (
        "list_sessions",
        {"limit": [], "agent_id": 1},
        "limit must be an integer. agent_id must be a string.",
    ),
    "too long": ("store_report", REPORT | {"content": "x" * 500_001}, "content is 500,001 characters long"),
    "too long a name": ("store_report", REPORT | {"agent_id": "x" * 201}, "agent_id is 201 characters long"),
    "limit true": ("list_sessions", {"limit": True}, "limit must be an integer."),
    "days true": ("cleanup_old_memories", {"days_old": True}, "days_old must be an integer."),
    "limit 0": ("list_sessions", {"limit": 0}, "limit must be an integer from 1 to 100."),
    "limit 101": ("search_reports_specific_chunks", {"query": "x", "limit": 101}, "from 1 to 100."),
    "limit a billion": ("search_reports_section_context", {"query": "x", "limit": 10**9}, "from 1 to 100."),
    "limit beyond 64 bits": ("search_reports_full_documents", {"limit": 10**40}, "from 1 to 100."),
    "another mode": (
        "search_reports_specific_chunks",
        {"query": "x", "search_mode": "best"},
        "search_mode must be one",
    ),
    "offset of a search": ("search_input_prompts", {"session_id": "s", "offset": -1}, "offset must be"),
    "too few tokens": (
        "search_input_prompts",
        {"session_id": "s", "max_tokens": 1},
        "max_tokens must be an integer of at least 200.",
    ),
    "negative offset": ("get_memory_by_id", {"memory_id": 1, "offset": -1}, "offset must be"),
    "bad iteration": ("store_report", REPORT | {"session_iter": "second"}, "session_iter must be a number"),
    "bad iteration, true": ("store_report", REPORT | {"session_iter": True}, "session_iter must be"),
    "bad id": ("get_memory_by_id", {"memory_id": "first"}, "memory_id must be an integer"),
    "bad id, true": ("delete_memory", {"memory_id": True}, "memory_id must be an integer."),
    "unknown id": ("delete_memory", {"memory_id": 999}, "999"),
    "unknown chunk": ("expand_chunk_context", {"chunk_id": "999"}, "There is no chunk 999"),
    "blank": ("store_report", REPORT | {"content": " \n\t"}, "content must not be empty"),
    "blank query": ("search_working_memory_specific_chunks", {"query": ""}, "query must not be empty"),
    "lone surrogate": ("store_report", REPORT | {"content": "a\ud800"}, "content contains a lone surrogate"),
    "lone surrogate in a tag": ("store_report", REPORT | {"tags": '["\\ud800"]'}, "contains a lone surrogate"),
    "too many tags": ("store_report", REPORT | {"tags": ["x"] * 21}, "tags has 21 entries: send at most 20."),
    "a million bad tags": ("store_report", REPORT | {"tags": [1] * 1_000_000}, "tags must be a list of strings."),
    "metadata deeper than answers can be": (
        "store_report",
        REPORT | {"metadata": '{"a":' + "[" * 400 + "]" * 400 + "}"},
        "metadata is nested too deeply: send at most 32 levels.",
    ),
    "blank filter": ("search_system_memory", {"agent_id": ""}, "agent_id must not be empty: omit it"),
    "metadata too deep": ("store_report", REPORT | {"metadata": '{"a":' * 100_000}, "metadata must be an object."),
    "unknown parameter": (
        "delete_memory",
        {"memory_id": 1, "id": 2},
        "delete_memory has no parameter 'id'; its parameters are memory_id.",
    ),
    "path outside": (
        "write_document_to_file",
        {"memory_id": 1, "output_path": "../x.md"},
        "output_path must be a file's path",
    ),
    "days out of range": ("cleanup_old_memories", {"days_old": -1, "dry_run": False}, "days_old must be"),
    "unknown tool": ("store_reports", REPORT, "Unknown tool"),
}


WRONG: dict[str, list[object]] = {
    "integer": [True, 2.5, "nan", "1e400", "many", "true", [], [1], {}],
    "number": [True, False, "nan", "Infinity", "1e400", "many", "true", [], {}],
    "boolean": [0, 1, 2.5, "off", "yes", "1", [], {}],
    "string": [True, 5, 2.5, [], {}],
    "array": [True, 5, 2.5, "x", "5", {}],
    "object": [True, 5, 2.5, "x", "[1]", [], [{}]],
}
"""Values that are of none of these types of JSON."""

WRONG_WITHIN: dict[str, list[object]] = {
    "integer": [[True], [2.5], ["x"], ["nan"], "[true]", "[NaN]", [[]]],
    "string": [[True], [5], "[5]", [None], [{}]],
}
"""Lists whose members are not of the type."""

NAMES = {"integer": "an integer", "number": "a number", "boolean": "true or false", "string": "a string"}


IDS = {"memory_id", "chunk_id", "parent_report_id", "session_iter"}
"""Numbers that may come as texts, whatever the schema names."""


def wrong_for(name: str, schema: dict[str, Any]) -> list[object]:
    """Return values that a parameter of this schema does not take."""
    within = WRONG_WITHIN[schema["items"]["type"]] if "items" in schema else []
    return [value for value in WRONG[schema["type"]] if not (isinstance(value, str) and name in IDS)] + within


def expected_for(schema: dict[str, Any]) -> str:
    """Return how a message names the type of a schema."""
    if "items" in schema:
        return f"a list of {schema['items']['type']}s"
    return (NAMES | {"object": "an object"})[schema["type"]]


@pytest.mark.parametrize("era", ["2026-07-28"])
async def test_a_value_of_another_type_is_refused_by_every_parameter_with_the_type_it_takes(
    era: str, store: SessionMemoryStore, rows: Rows
) -> None:
    files = SimpleNamespace(settings=store.settings)
    server = create_server(lambda: nullcontext(store), ServerOptions(toolsets="all"), lambda: nullcontext(files))
    tools = {tool.name: tool for tool in offered(list(Toolset))}
    tried = set()
    async with Client(server, mode=era) as client:
        await client.call_tool("store_report", REPORT)
        before = rows()
        for tool in tools.values():
            for name, schema in tool.parameters["properties"].items():
                if "enum" in schema or schema["type"] == "string":
                    continue
                for value in wrong_for(name, schema)[: 1 if name in {known for _, known in tried} else None]:
                    arguments = good_arguments(tool) | {name: value}
                    answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
                    said = (answer.structured_content or {})["message"]
                    assert answer.is_error, (tool.name, arguments)
                    assert said.startswith(f"{name} must be {expected_for(schema)}"), (tool.name, arguments, said)
                    tried.add((tool.name, name))
        assert rows() == before
    assert {("store_report", "ttl_days"), ("supersede_memories", "older_ids"), ("memory_get", "lines")} <= tried


class BrokenStore:
    """Fails at everything, and says what it should not."""

    settings = Settings()

    def __getattr__(self, _name: str) -> Any:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError(SECRET) from KeyError(SECRET)

        return fail


@pytest.mark.parametrize(("tool", "arguments", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
async def test_bad_input_is_refused(call: Call, rows: Rows, tool: str, arguments: dict[str, Any], message: str) -> None:
    """Whatever is wrong with the input, the caller reads what to send instead and nothing has changed."""
    await call("store_report", **REPORT)
    before = rows()
    answer = await call(tool, **arguments)
    body = answer.structured_content
    assert answer.is_error
    assert (body["success"], body["error"]) == (False, "ValidationError")
    assert message in body["message"]
    assert len(body["message"]) < 300
    assert rows() == before


async def test_failed_body_has_the_tools_shape(client: Client, call: Call) -> None:
    """A failure has the fields that a tool's own answer always has, as their defaults: readers need no second form.

    A receipt of nothing has none of a memory's.
    """
    models = {tool.name: tool.result_model for tool in SESSION_TOOLS}
    for tool in await client.list_tools():
        answer = await call(tool.name, nonsense=1)
        assert answer.is_error
        fields = (Result if tool.name.startswith("store_") else models[tool.name]).model_fields
        assert set(answer.structured_content) == {name for name in fields if not fields[name].exclude_if}, tool.name
        # The TypeScript SDK checks failed bodies too.
        jsonschema.validate(answer.structured_content, tool.output_schema)
        assert not any(answer.structured_content.get(name) for name in ("results", "memory", "sessions", "memory_id"))


async def test_unknown_parameters_are_shown_in_part(call: Call) -> None:
    """A thousand unknown parameters with endless names make a short message."""
    answer = await call("delete_memory", memory_id=1, **{f"{'x' * 10_000}{i}": 1 for i in range(1000)})
    assert len(answer.structured_content["message"]) < 500


async def test_a_duplicate_names_the_stored_memory(call: Call, rows: Rows) -> None:
    """A repeated store changes nothing and gives the id of the first, so that a retry is harmless."""
    first = await call("store_report", **REPORT)
    before = rows()
    second = await call("store_report", **REPORT)
    assert second.is_error
    assert second.structured_content["error"] == "ValidationError"
    assert "already exists" in second.structured_content["message"]
    assert second.structured_content["memory_id"] == first.structured_content["memory_id"]
    assert rows() == before


@pytest.mark.parametrize("error", [MemoryStorageError, SearchError, ChunkingError, DatabaseError, DatabaseLockError])
async def test_every_error_has_its_code(
    call: Call, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch, error: type[VectorMemoryError]
) -> None:
    """What the store raises arrives under its code of seed 000, with its message."""

    monkeypatch.setattr(store, "store_memory", Mock(side_effect=error("Do this next.")))
    answer = await call("store_report", **REPORT)
    assert answer.is_error
    assert (answer.structured_content["error"], answer.structured_content["message"]) == (error.code, "Do this next.")


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("store_report", REPORT, "MemoryError"),
        ("search_reports_specific_chunks", {"query": "x"}, "SearchError"),
        ("get_memory_by_id", {"memory_id": 1}, "DatabaseError"),
        ("delete_memory", {"memory_id": 1}, "DatabaseError"),
    ],
)
async def test_unexpected_errors_tell_no_secrets(
    era: str, caplog: pytest.LogCaptureFixture, tool: str, arguments: dict[str, Any], code: str
) -> None:
    """An unexpected error gets the code of its family; neither the answer nor the log repeats its message."""
    async with Client(create_server(lambda: nullcontext(BrokenStore())), mode=era) as client:
        with caplog.at_level(logging.INFO):
            answer = await client.call_tool(tool, arguments, raise_on_error=False)
    assert answer.is_error
    assert (answer.structured_content["success"], answer.structured_content["error"]) == (False, code)
    assert SECRET not in str(answer.content)
    assert SECRET not in caplog.text
    assert f"{tool} failed: RuntimeError at test_tool_failures.py" in caplog.text
    assert "from KeyError" in caplog.text
