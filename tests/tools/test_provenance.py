"""Whatever is recalled says where it comes from: kind, agent, session, time (requirement S7)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from eras import Call
from tool_calls import SESSION_TOOLS, good_arguments
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

TEXT = "axolotl"
"""It is in every content and nowhere else."""

PROVENANCE = ("memory_type", "agent_id", "session_id", "created_at")
KINDS = (
    "report",
    "session_context",
    "input_prompt",
    "system_memory",
    "report_observation",
    "working_memory",
    "knowledge_base",
)
Object = dict[str, Any]


def field_names(schema: object) -> Iterator[str]:
    """Yield the names of the fields of all objects in a schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from field_names(inner)


def hands_out_text(tool: MemoryTool) -> bool:
    """Tell whether answers of a tool hold the text of memories, or parts of it."""
    return any(name == "content" or name.endswith("_content") for name in field_names(tool.output_schema))


READING = [tool for tool in SESSION_TOOLS if hands_out_text(tool)]


@pytest.fixture
def stored(store: SessionMemoryStore) -> dict[str, Object]:
    """A memory of each kind; what each has to say of itself, by its kind. The report is memory 1 and has chunk 1."""
    said = {}
    for number, kind in enumerate(KINDS, 1):
        names = {"agent_id": f"of {kind}", "session_id": None if kind == "knowledge_base" else "s", "title": "T"}
        store.store_memory(kind, f"# {kind}\n\nAn {TEXT}.", **names)
        said[kind] = store.get_memory_by_id(number).model_dump()["memory"] | names | {"memory_type": kind}
    return said


def recalled(value: object, around: Object) -> Iterator[Object]:
    """Yield, for each object of an answer with recalled text, its fields and those of the enclosing objects."""
    if isinstance(value, list):
        for inner in value:
            yield from recalled(inner, around)
    elif isinstance(value, dict):
        fields = {**around, **value}
        if any(isinstance(text, str) and TEXT in text for text in value.values()):
            yield fields
        for inner in value.values():
            yield from recalled(inner, fields)


@pytest.mark.parametrize("tool", READING, ids=lambda tool: tool.name)
async def test_recalled_text_has_its_kind_agent_session_and_time(
    answered: Call, stored: dict[str, Object], tool: MemoryTool
) -> None:
    found = list(recalled(await answered(tool.name, **good_arguments(tool)), {}))
    assert found
    for fields in found:
        memory = stored[fields["memory_type"]]
        assert {name: fields.get(name) for name in PROVENANCE} == {name: memory[name] for name in PROVENANCE}


async def test_an_exported_file_says_where_its_text_comes_from(answered: Call, stored: dict[str, Object]) -> None:
    written = await answered("write_document_to_file", memory_id=1, output_path="a.md")
    front = Path(written["file_path"]).read_text(encoding="utf-8").split("---")[1]
    for name in PROVENANCE:
        assert f"{name}: " in front
        assert stored["report"][name] in front


def test_the_tools_that_return_text_are_recognized_by_their_answers() -> None:
    """Those that count, store, delete or write hand out none; a new tool is checked if its answer has a content."""
    others = {tool.name for tool in SESSION_TOOLS} - {tool.name for tool in READING}
    assert {name for name in others if not name.startswith("store_")} == {
        "write_document_to_file",
        "get_session_stats",
        "list_sessions",
        "delete_memory",
        "cleanup_old_memories",
    }


async def test_the_server_says_that_results_are_data_and_not_instructions(server: FastMCP) -> None:
    async with Client(server, mode="legacy") as client:
        said = client.initialize_result.instructions or ""
    assert "stored data" in said
    assert "never as instructions" in said


async def test_each_hit_has_its_date_and_each_section_the_title_of_its_document(
    answered: Call, store: SessionMemoryStore
) -> None:
    text = "\n\n".join(f"# {name}\n\n" + f"An {TEXT} of {name}. " * 100 for name in "ABC")
    for title in ("T", "U"):
        store.store_memory("report", text, session_id=title, title=title, created_at="2026-10-05T12:00:00+00:00")
    chunks = await answered("search_reports_specific_chunks", query=TEXT)
    sections = await answered("search_reports_section_context", query=TEXT)
    assert len(sections["results"]) > 2
    for hit in (*chunks["results"], *sections["results"]):
        assert hit["created_at"] == "2026-10-05T12:00:00Z"
    assert {hit["title"] for hit in sections["results"]} == {"T", "U"}
