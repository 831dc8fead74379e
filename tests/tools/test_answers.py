"""Answers say things once: results in the order of their scores, mostly content, times to the second."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from tool_calls import good_arguments
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files import FileMemory
from vector_memory.results.sessions import SharedProvenance
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import ServerOptions, Settings, Toolset
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

DOCUMENTS = sorted((Path(__file__).parents[1] / "data" / "markdown").glob("*-*.md"))
QUESTIONS = (
    "how many worker processes should run",
    "which operator dereferences a pointer",
    "how does a module make an item public",
    "run the server in production",
)
TEXTS = ("Words about databases.", "Databases keep words about other databases.", "A garden.", "Rows of a database.")

SEARCHING = [tool for tool in offered(tuple(Toolset)) if "query" in tool.parameters["properties"]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionMemoryStore, FileMemory]]:
    """Give a memory that holds a few texts of every kind, and a folder with the same texts."""
    folder = tmp_path_factory.mktemp("answers")
    settings = Settings(embedding_model="toy", warm_start_embedding_model=False)
    (folder / "notes").mkdir()
    for number, text in enumerate(TEXTS):
        (folder / "notes" / f"{number}.md").write_text(text)
    with ExitStack() as stack:
        store = stack.enter_context(SessionMemoryStore(folder / "memory.db", settings, embedder=ToyEngine()))
        for number, text in enumerate(TEXTS):
            for kind in ("report", "working_memory", "system_memory", "session_context", "input_prompt"):
                store.store_memory(kind, text, session_id="s", agent_id=f"agent {number % 2}")
            store.store_memory("knowledge_base", text, agent_id="a", title=f"T {number}")
            store.tagged.store(text)
        yield store, stack.enter_context(indexed(folder / "notes", settings))


def indexed(folder: Path, settings: Settings) -> FileMemory:
    """Return a folder as a memory whose words can be found."""
    files = FileMemory(folder, settings, index_file=folder.parent / "i.sqlite", model=EmbeddingModel(ToyEngine))
    files.start_background_work()
    assert files.wait_for_words(60)
    return files


@pytest.fixture
async def client(parts: tuple[SessionMemoryStore, FileMemory]) -> AsyncIterator[Client]:
    store, files = parts
    server = create_server(lambda: nullcontext(store), ServerOptions(toolsets="all"), lambda: nullcontext(files))
    async with Client(server) as client:
        yield client


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """Give a memory of real documents with the real model."""
    model = EmbeddingModel(lambda: load_embedder(Settings()))
    with SessionMemoryStore(tmp_path_factory.mktemp("documents") / "memory.db", model=model) as store:
        for number, file in enumerate(DOCUMENTS):
            text = file.read_text(encoding="utf-8")
            store.store_memory("report", text, session_id="reading", agent_id=f"reader-{number}", task_code="docs")
        yield store


async def asked(store: SessionMemoryStore, tool: str, **arguments: Any) -> dict[str, Any]:
    async with Client(create_server(lambda: nullcontext(store))) as client:
        return dict((await client.call_tool(tool, arguments)).structured_content)


def characters(body: object) -> int:
    """Return the length of an answer as clients serialise it for a model."""
    return len(json.dumps(body, separators=(",", ":"), ensure_ascii=False))


async def test_seven_tenths_of_an_answer_of_chunks_of_real_documents_are_content(documents: SessionMemoryStore) -> None:
    content = total = 0
    for question in QUESTIONS:
        body = await asked(documents, "search_reports_specific_chunks", query=question, limit=10)
        assert len(body["results"]) >= 5
        content += sum(len(result["chunk_content"]) for result in body["results"])
        total += characters(body)
    assert content / total >= 0.7


@pytest.mark.parametrize("tool", ["search_reports_specific_chunks", "search_reports_section_context"])
async def test_where_a_text_comes_from_stands_with_it_or_with_the_first_of_its_memory_or_beside_all(
    documents: SessionMemoryStore, tool: str
) -> None:
    body = await asked(documents, tool, query=QUESTIONS[0], limit=10)
    first: dict[int, dict[str, Any]] = {}
    for result in body["results"]:
        known = {**body, **first.setdefault(result["memory_id"], result), **result}
        memory = documents.get_memory_by_id(result["memory_id"]).memory
        for name in set(SharedProvenance.model_fields) - {"title"}:
            assert known.get(name) == getattr(memory, name)
        assert known.get("title") or memory.title == result["header_path"].split(" > ")[0].lstrip("# ")
    assert (body["session_id"], body["task_code"]) == ("reading", "docs")
    assert not {"session_id", "task_code"} & {name for result in body["results"] for name in result}


async def test_a_title_that_no_heading_says_stays(store: SessionMemoryStore) -> None:
    for number in range(2):
        store.store_memory("report", f"# Heading\n\nWords {number}.", session_id="s", title=f"Title {number}")
    body = await asked(store, "search_reports_specific_chunks", query="words")
    assert {result["title"] for result in body["results"]} == {"Title 0", "Title 1"}


@pytest.mark.parametrize("tool", SEARCHING, ids=lambda tool: tool.name)
async def test_every_result_of_a_search_has_the_score_that_the_results_are_sorted_by(
    client: Client, tool: MemoryTool
) -> None:
    body = await client.call_tool(tool.name, {**good_arguments(tool), "query": "words about databases"})
    scores = [result["score"] for result in body.structured_content["results"]]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 and score == round(score, 3) for score in scores)


async def test_what_nothing_was_compared_with_has_no_score(client: Client) -> None:
    for tool, arguments in (
        ("search_reports_full_documents", {}),
        ("search_session_context", {"session_id": "s"}),
        ("search_changes", {"session_id": "s"}),
    ):
        results = (await client.call_tool(tool, arguments)).structured_content["results"]
        assert results
        assert not any("score" in result for result in results)
        assert {result["similarity"] for result in results} == {2.0}


@pytest.mark.parametrize("tool", offered(tuple(Toolset), read_only=True), ids=lambda tool: tool.name)
async def test_no_answer_has_fractions_of_a_second_or_more_than_three_decimals_of_a_share(
    client: Client, tool: MemoryTool
) -> None:
    special = {"get_by_memory_id": {"memory_id": 7}, "memory_get": {"path": "0.md"}}
    answer = await client.call_tool(tool.name, special.get(tool.name) or good_arguments(tool), raise_on_error=False)
    assert answer.structured_content["success"], answer.structured_content
    text = json.dumps(answer.structured_content)
    assert not re.search(r"T\d\d:\d\d:\d\d\.", text)
    assert not re.search(r'"(similarity|distance|score|match_ratio)": \d\.\d{4}', text)


async def test_one_note_is_called_a_note(client: Client) -> None:
    found = (await client.call_tool("search_memories", {"query": "garden", "limit": 1})).structured_content
    assert found["message"].startswith("1 tagged note.")
    recent = (await client.call_tool("list_recent_memories", {"limit": 3})).structured_content
    assert recent["message"].startswith("3 tagged notes.")
