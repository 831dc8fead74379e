"""Text is text, whatever it looks like (requirement S2): every parameter of every tool is given hostile strings."""

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult

from engines import definitions, execute
from eras import Call
from faults.effort import effort
from tool_calls import with_text
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
