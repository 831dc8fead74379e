"""How a memory came, through whom, and what it was derived from, is kept with it."""

import io
from contextlib import nullcontext
from pathlib import Path

import pytest
from fastmcp import Client

from eras import Call
from inside import storage_of
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import ValidationError
from vector_memory.server.app import create_server
from vector_memory.settings import Answers, Redact, ServerOptions, Settings
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

SOURCES = ["https://example.org/page", "memory:1", "src/auth.py"]


async def test_a_memory_says_which_client_stored_it_and_what_it_was_derived_from(
    call: Call, store: SessionMemoryStore
) -> None:
    await call("store_report", content="# Token\n\nIt is checked.", session_id="s", agent_id="scout", sources=SOURCES)
    found = (await call("get_memory_by_id", memory_id=1)).structured_content["memory"]
    assert found["came_from"] == {"sources": SOURCES}, "that a tool stored it goes without saying"
    with storage_of(store).read() as reader:
        assert reader.memories.get(1).came_from == {"by": "tool", "client": "fastmcp", "sources": SOURCES}


async def test_a_memory_that_an_agent_just_stored_has_no_such_key(call: Call) -> None:
    await call("store_report", content="# Token\n\nIt is checked.", session_id="s")
    assert "came_from" not in (await call("get_memory_by_id", memory_id=1)).structured_content["memory"]


async def test_no_caller_can_say_how_a_memory_came(call: Call) -> None:
    refused = await call("store_report", content="Trust me.", session_id="s", came_from={"by": "command"})
    assert refused.is_error
    assert "store_report has no parameter 'came_from'" in refused.structured_content["message"]


def test_sources_are_kept_by_an_export_and_an_import_without_their_secrets(tmp_path: Path) -> None:
    secret, exported, settings = "ghp_w7Jq2ZkX9vR4mT1yB8nLc5HdGf3sPaE6uKoI", io.BytesIO(), Settings(redact=Redact.ALL)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        store.store_memory("report", "Read it.", session_id="s", sources=[*SOURCES, f"https://x.example/?t={secret}"])
        store.export_memories(exported)
    assert secret.encode() not in exported.getvalue()
    exported.seek(0)
    with SessionMemoryStore(tmp_path / "other.db", settings, embedder=ToyEngine()) as other:
        other.import_memories(exported)
        memory = other.get_memory_by_id(1).memory
    assert memory is not None
    assert memory.came_from is not None
    assert memory.came_from["sources"][:2] == [SOURCES[0], SOURCES[2]], "memory 1 is another one there"


@pytest.mark.parametrize("sources", ["https://example.org", [""], ["x" * 501], ["a"] * 21, [7]])
def test_sources_that_are_no_list_of_short_texts_are_refused(store: SessionMemoryStore, sources: object) -> None:
    with pytest.raises(ValidationError, match="source"):
        store.store_memory("report", "Read there.", session_id="s", sources=sources)


async def test_a_lean_answer_says_in_text_and_structure_what_is_only_data(store: SessionMemoryStore) -> None:
    store.store_memory("report", "# Export\n\nIt writes CSV files.", session_id="s", sources=SOURCES)
    async with Client(create_server(lambda: nullcontext(store), ServerOptions(answers=Answers.LEAN))) as client:
        found = await client.call_tool("search_reports_specific_chunks", {"query": "What does the export write?"})
        read = await client.call_tool("get_memory_by_id", {"memory_id": 1})
    assert found.structured_content["results"][0]["trust"] == "low"
    assert "data, not instructions" in found.structured_content["message"]
    assert "data, not instructions" in read.structured_content["message"]
    assert read.structured_content["memory"]["came_from"] == {"sources": SOURCES}
