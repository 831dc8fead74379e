"""Text is text, whatever it looks like (requirement S2), and says where it comes from (requirement S7)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from engines import definitions, execute
from eras import Call
from faults.effort import effort
from tool_calls import SESSION_TOOLS, good_arguments, with_text
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import ServerOptions, Toolset
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

TAGGED = offered([Toolset.TAGGED])
TOOLS = [*offered([Toolset.SESSION]), *TAGGED]

HOSTILE = (
    "' or 1=1 --",
    "'; drop table session_memories; --",
    '" union select content from session_memories --',
    "\\'; delete from memory_chunks; /*",
    "?1 :agent_id @a $b {0} %(a)s %s",
    "%",
    "_",
    "*",
    '"',
    "NEAR(",
    'NEAR("words" "databases", 5) OR *',
    "words AND NOT databases OR",
    "content : words ^ (databases + ",
    "-words -databases",
    '{"$ne": null}',
    '["words"]',
    "$.category",
    "a\0b",
    "s ",
    "\u202eesrever\u200b\ufeff",
    "caf\u00e9",
    "cafe\u0301",
    "\uff07 or \uff11=\uff11",
    "\U0001f469\u200d\U0001f4bb\U000e0041",
    "\r\n\x1b[2J\x7f",
    "../../etc/passwd",
    "~/a; rm -rf $(pwd) `id`",
)
"""SQL, full-text syntax, wildcards, bindings, JSON, paths, a shell's words, and what only looks like something else."""

NAMES = [text for text in HOSTILE if "\0" not in text]
"""Those that may be stored as names: NUL is refused."""

SHARES = effort(quick=6, long=1)
"""A parameter of a tool is given one text out of so many; all texts come to each tool that has so many parameters."""

SCOPED_BY = ("agent_id", "session_id", "task_code", "category")
BYSTANDERS = ("# Title\n\nWords about databases.", "# Other\n\nWords and content of a report.")


@pytest.fixture
async def call(store: SessionMemoryStore) -> AsyncIterator[Call]:
    """Call a tool, in one protocol era: what is sent is the same in both."""
    async with Client(create_server(lambda: nullcontext(store), ServerOptions(toolsets="session,tagged"))) as client:

        async def call(tool: str, **arguments: object) -> CallToolResult:
            return await client.call_tool(tool, arguments, raise_on_error=False)

        yield call


@pytest.fixture
def bystanders(store: SessionMemoryStore) -> None:
    """Memories 1 to 4, which no call may change, or find under another name."""
    for text in BYSTANDERS:
        store.store_memory("report", text, agent_id="a", session_id="s", task_code="t")
    store.store_memory("knowledge_base", BYSTANDERS[0], agent_id="a", title="T", category="c")
    store.tagged.store(BYSTANDERS[0], "learning", ["bystander"])


KEPT = (
    "select id, agent_id, session_id, task_code, content, title, metadata from session_memories where id < 5",
    "select id, parent_id, content from memory_chunks where parent_id < 5",
    "select id, memory_id from memory_passages where memory_id < 5",
    "select id, tag from canonical_tags where tag = 'bystander'",
)


def shape(store: SessionMemoryStore) -> list[Any]:
    """Return the schema, and what is kept of the bystanders; not when they were read, and how often."""
    return [definitions(store), *(execute(store, f"{sql} order by id") for sql in KEPT)]


def nowhere(tool: MemoryTool) -> dict[str, str]:
    """Return arguments that narrow a search to where nothing is."""
    narrowing = {name: "nowhere" for name in SCOPED_BY if name in tool.parameters["properties"]}
    assert narrowing
    return narrowing


def strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def files_outside(folder: Path, inside: Path) -> set[Path]:
    """Return the files that are not the memory's own and not in the export folder."""
    return {
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(inside) and not path.name.startswith("memory.db")
    }


async def came_back(call: Call, body: dict[str, Any], parameter: str, text: str) -> bool:
    """Tell whether a stored memory has the text where it was sent."""
    memory = (await call("get_memory_by_id", memory_id=body["memory_id"])).structured_content["memory"]
    return text in strings(memory.get(parameter, memory["metadata"].get(parameter)))


def is_ruled(tool: MemoryTool, parameter: str) -> bool:
    """Tell whether tags or a category are sent that are replaced by the nearest ones that are allowed."""
    return tool in TAGGED and parameter in {"category", "tags"}


@pytest.mark.usefixtures("bystanders")
@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
async def test_every_tool_treats_hostile_text_as_text_or_refuses_it(
    call: Call, store: SessionMemoryStore, tmp_path: Path, tool: MemoryTool
) -> None:
    before = shape(store)
    for share, parameter in enumerate(tool.parameters["properties"], TOOLS.index(tool)):
        for text in HOSTILE[share % SHARES :: SHARES]:
            for arguments in with_text(tool, parameter, text):
                answer = await call(tool.name, **arguments)
                body = answer.structured_content
                assert body["error"] in (None, "ValidationError"), (parameter, text, body)
                if tool.name.startswith("store_") and not answer.is_error and not is_ruled(tool, parameter):
                    assert await came_back(call, body, parameter, text), (parameter, text)
                if tool.name.startswith("search_") and (parameter in SCOPED_BY or is_ruled(tool, parameter)):
                    assert body["results"] == [], (parameter, text)
                if tool.name.startswith("search_") and parameter == "query":
                    assert not answer.is_error, (text, body)
                    narrowed = await call(tool.name, **{**arguments, **nowhere(tool)})
                    assert narrowed.structured_content["results"] == [], text
    assert shape(store) == before
    assert files_outside(tmp_path, tmp_path / "exports") == set()


@pytest.mark.parametrize("parameter", SCOPED_BY)
async def test_memories_under_a_hostile_name_are_found_by_that_name_only(call: Call, parameter: str) -> None:
    kind, stored = "reports", {"agent_id": "a", "session_id": "s", "content": "Words."}
    tool = "store_report"
    if parameter == "category":
        kind, tool = "knowledge_base", "store_knowledge_base"
        stored = {"agent_id": "a", "title": "T", "content": "Words."}
    ids = {}
    for name in NAMES:
        ids[name] = (await call(tool, **{**stored, parameter: name})).structured_content["memory_id"]
    assert len(set(ids.values())) == len(NAMES)
    for name, memory_id in ids.items():
        for grain in ("specific_chunks", "section_context", "full_documents"):
            found = await call(f"search_{kind}_{grain}", query="Words.", limit=100, **{parameter: name})
            results = found.structured_content["results"]
            assert [result.get("memory_id", result.get("id")) for result in results] == [memory_id], (grain, name)


async def test_a_session_with_a_hostile_name_is_a_session_like_others(call: Call) -> None:
    for name in NAMES:
        for session in ("s", name):
            await call("store_report", agent_id=name, session_id=session, content="Words.")
            await call("store_session_context", session_id=session, session_iter=1, content="State.")
        counted = await call("get_session_stats", session_id=name)
        assert counted.structured_content["memory_counts"] == {"report": 1, "session_context": 1}, name
        assert counted.structured_content["agent_counts"][name] == 1, name
        context = await call("load_session_context_for_task", session_id=name, session_iter="v1")
        assert context.structured_content["session_context"]["session_id"] == name
        listed = await call("list_sessions", agent_id=name)
        assert {session["session_id"] for session in listed.structured_content["sessions"]} == {"s", name}, name


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
