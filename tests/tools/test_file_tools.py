"""The tools over Markdown files, as clients see them in both protocol eras."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fastmcp import Client

from eras import Call
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files import FileMemory
from vector_memory.files import memory as file_memory
from vector_memory.server.app import create_server
from vector_memory.settings import Answers, ServerOptions, Settings
from vector_memory.store import SessionMemoryStore
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

SEED = {
    "memory_search": (["query", "limit", "source"], ["results"]),
    "memory_get": (["path", "startLine", "lines"], ["content", "path", "totalLines"]),
    "memory_write": (["entry", "topic"], ["path", "success"]),
    "memory_status": (
        [],
        ["files", "chunks", "lastIndexed", "model", "dimensions", "dbSizeBytes", "vectorEnabled", "ftsEnabled"],
    ),
}
"""Parameters and keys of seed 002."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Animals\n\nThe quokka eats leaves.\n")
    return folder


@pytest.fixture
def files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileMemory]:
    monkeypatch.setattr(file_memory, "SECONDS_TO_INDEX", PATIENCE)  # a busy machine needs longer
    settings, model = Settings(embedding_model="toy"), EmbeddingModel(ToyEngine)
    with FileMemory(folder, settings, index_file=tmp_path / "index.sqlite", model=model) as files:
        yield files


def no_store() -> SessionMemoryStore:
    raise AssertionError("the store of the sessions is not needed")


@pytest.fixture
async def client(files: FileMemory, era: str) -> AsyncIterator[Client]:
    async with Client(create_server(no_store, ServerOptions(toolsets="files"), lambda: files), mode=era) as client:
        files.start_background_work()
        yield client


ADDED = {"memory_get": ["offset"]}
"""Parameters that the specification does not have."""


async def test_parameters_and_keys_are_those_of_the_specification(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert list(tools) == list(SEED)
    for name, (parameters, keys) in SEED.items():
        assert list(tools[name].input_schema["properties"]) == [*parameters, *ADDED.get(name, [])]
        assert set(keys) <= tools[name].output_schema["properties"].keys()


async def test_results_have_the_keys_of_the_specification(call: Call, files: FileMemory) -> None:
    await until(lambda: files.status().files and not files.status().chunks_without_vectors)
    (found,) = (await call("memory_search", query="quokka")).structured_content["results"]
    assert list(found) == ["path", "text", "score", "match", "startLine", "endLine"]
    assert (found["path"], found["startLine"], found["endLine"]) == ("memory/MEMORY.md", 1, 3)


async def test_a_lean_answer_has_the_part_of_a_passage_that_was_asked_for_and_its_lines(
    files: FileMemory, folder: Path
) -> None:
    steps = [f"In step {number} we looked at the router and wrote down what it saw." for number in range(40)]
    lines = ["# Review", "", *steps[:25], "The quokka had chewed the cable.", *steps[25:]]
    (folder / "review.md").write_text("\n".join(lines))
    server = create_server(no_store, ServerOptions(toolsets="files", answers=Answers.LEAN), lambda: files)
    async with Client(server) as client:
        answer = await client.call_tool("memory_search", {"query": "why was the cable chewed by the quokka"})
    found = next(one for one in (answer.structured_content or {})["results"] if "cable" in one["text"])
    assert found["text"].splitlines() == lines[found["startLine"] - 1 : found["endLine"]]
    assert found["endLine"] - found["startLine"] < 30


async def test_an_entry_is_written_read_and_found(call: Call, folder: Path) -> None:
    path = (await call("memory_write", entry="We ship on Fridays.", topic="Decision")).structured_content["path"]
    assert "We ship on Fridays." in (folder / Path(path).name).read_text()
    read = await call("memory_get", path=path, startLine=3, lines=1)
    assert read.structured_content["content"] == "We ship on Fridays.\n"
    found = await call("memory_search", query="ship on Fridays", source="daily")
    assert found.structured_content["results"][0]["path"] == path


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_search", {"query": ""}),
        ("memory_search", {"query": "x", "source": "weekly"}),
        ("memory_search", {"query": "x", "limit": 0}),
        ("memory_search", {"query": "x", "limit": 10**9}),
        ("memory_get", {"path": "../../etc/passwd"}),
        ("memory_get", {"path": "missing.md"}),
        ("memory_get", {"path": "MEMORY.md", "startLine": -1}),
        ("memory_get", {}),
        ("memory_write", {"entry": " "}),
    ],
)
async def test_a_failure_has_the_body_of_the_tool(call: Call, tool: str, arguments: dict[str, object]) -> None:
    answer = await call(tool, **arguments)
    assert answer.is_error
    assert answer.structured_content["success"] is False
    assert answer.structured_content["error"] == "ValidationError"
    assert answer.structured_content["message"]


async def test_the_status_says_what_is_indexed(call: Call, files: FileMemory) -> None:
    assert files.wait_for_words(20)
    answer = (await call("memory_status")).structured_content
    assert (answer["files"], answer["chunks"], answer["model"], answer["ftsEnabled"]) == (1, 1, "toy", True)
    assert answer["dbSizeBytes"] > 0


async def test_a_client_that_asks_receives_the_progress_of_the_index(
    client: Client, files: FileMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []

    async def note(_progress: float, _total: float | None, message: str | None) -> None:
        told.append(message)

    monkeypatch.setattr(files, "wait_for_words", lambda *_: False)  # as during a long first index
    await client.call_tool("memory_search", {"query": "quokka"}, progress_handler=note)
    assert told
    assert set(told) == {"Indexing memory files"}
