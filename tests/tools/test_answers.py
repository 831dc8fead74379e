"""Answers say things once, best first, mostly content; lean ones are what a model reads, and nothing else."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastmcp import Client
from mcp_types import Implementation

from tool_calls import good_arguments
from vector_memory.answers.models import FoundChunk, LaterMemory, SharedProvenance
from vector_memory.domain import MatchLevel, MemoryKind, Page, Scope
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files import FileMemory
from vector_memory.server.app import create_server
from vector_memory.server.lean import formed, joined_hits, room_of
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import READS_ONLY_STRUCTURE, MemoryTool
from vector_memory.settings import Answers, Profile, ServerOptions, Settings, Toolset
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


STEPS = " ".join(f"In step {number} the team looked at the router and wrote down what it saw." for number in range(20))
CAUSE = "The migration locked the invoices table for eleven minutes."
REVIEW = f"# Incident review\n\n{STEPS}\n\n## Cause\n\n{STEPS} {CAUSE} {STEPS}\n\n## Next\n\n{STEPS}"
NOTE = "The invoices start at 1000."


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    store.store_memory(MemoryKind.REPORT, REVIEW, agent_id="ops", session_id="s", created_at="2026-03-01T10:20:30Z")
    store.store_memory(MemoryKind.REPORT, NOTE, agent_id="billing", session_id="s", title="Invoices")
    store.store_memory(MemoryKind.SESSION_CONTEXT, "Next: invoices.", agent_id="ops", session_id="s")
    return store


@pytest.fixture
async def lean(filled: SessionMemoryStore) -> AsyncIterator[Client]:
    async with Client(create_server(lambda: nullcontext(filled), ServerOptions(answers=Answers.LEAN))) as client:
        yield client


async def found(client: Client, tool: str = "search_reports_specific_chunks", **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, {"query": "migration invoices locked", **arguments}, raise_on_error=False)
    assert answer.structured_content is not None
    return answer.structured_content


async def test_a_hit_is_what_a_model_reads(lean: Client) -> None:
    """A short memory is its text, its id, its minute and its origin."""
    [note] = [one for one in (await found(lean))["results"] if one["agent"] == "billing"]
    note.pop("context_before", None), note.pop("context_after", None)
    assert len(note.pop("date")) == len("2026-03-01")
    assert note == {"memory_id": 2, "agent": "billing", "title": "Invoices", "match": "strong", "content": NOTE}


async def test_a_count_of_nothing_is_left_out(lean: Client) -> None:
    assert "weak" not in await found(lean)


@pytest.mark.parametrize("filters", [{}, {"agent_id": "ops"}, {"agent_id": "ops", "session_id": "s"}])
async def test_a_hit_has_the_same_keys_whatever_was_asked(lean: Client, filters: dict[str, Any]) -> None:
    hit = next(one for one in (await found(lean, **filters))["results"] if one["agent"] == "ops")
    assert {"memory_id", "date", "agent", "content"} <= hit.keys()


async def test_a_long_hit_is_cut_around_what_was_asked(lean: Client) -> None:
    """The sentence in the middle of a long section is in the excerpt, with marks at the cuts and a way to read on."""
    hit = next(one for one in (await found(lean))["results"] if one["memory_id"] == 1)
    assert CAUSE in hit["content"]
    assert len(hit["content"]) < len(REVIEW) * 2 / 3
    assert "…" in hit["content"]
    rest = await lean.call_tool("get_memory_by_id", {"memory_id": hit["memory_id"], "offset": hit["content_end"]})
    assert rest.structured_content["memory"]["content"] == REVIEW[hit["content_end"] :]


async def test_the_hits_of_a_document_are_one(lean: Client) -> None:
    """What is known of a document is said once, and its parts follow each other as in the document."""
    results = (await found(lean))["results"]
    assert sorted(one["memory_id"] for one in results) == [1, 2]
    review = next(one for one in results if one["memory_id"] == 1)
    assert review["content"].index("# Incident review") < review["content"].index(CAUSE)


async def test_more_fits_into_a_lean_answer(lean: Client, filled: SessionMemoryStore) -> None:
    """The budget measures the lean form."""
    for number in range(40):
        filled.store_memory(MemoryKind.REPORT, f"{NOTE} {number}", agent_id="billing", session_id="s")
    answer = await found(lean, max_tokens=600, limit=40, neighbours=0)
    async with Client(create_server(lambda: nullcontext(filled))) as full:
        assert len((await found(full, max_tokens=600, limit=40, neighbours=0))["results"]) * 2 < len(answer["results"])
    assert len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) <= 1_800
    assert answer["next_offset"] == len(answer["results"])


CALLS: dict[str, dict[str, Any]] = {
    "search_reports_specific_chunks": {"query": "invoices"},
    "search_reports_section_context": {"query": "invoices"},
    "search_reports_full_documents": {"query": "invoices"},
    "search_session_context": {"session_id": "s"},
    "load_session_context_for_task": {"session_id": "s"},
    "search_changes": {"session_id": "s"},
    "get_memory_by_id": {"memory_id": 1},
    "expand_chunk_context": {"chunk_id": 2},
    "reconstruct_document": {"memory_id": 1},
    "list_sessions": {},
    "get_session_stats": {"session_id": "s"},
    "store_report": {"content": "New.", "session_id": "s", "agent_id": "a"},
    "delete_memory": {"memory_id": 99},
}


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("answers", Answers)
async def test_what_a_lean_tool_declares_is_true_in_both_forms(
    lean: Client, filled: SessionMemoryStore, tool: str, answers: Answers
) -> None:
    declared = {one.name: one.output_schema for one in await lean.list_tools()}
    async with Client(create_server(lambda: nullcontext(filled), ServerOptions(answers=answers))) as client:
        answer = await client.call_tool(tool, CALLS[tool], raise_on_error=False)
    jsonschema.validate(answer.structured_content, declared[tool])


@pytest.mark.parametrize("tool", CALLS)
async def test_nothing_in_a_lean_answer_is_empty(lean: Client, tool: str) -> None:
    """No null, no empty value, and none of what only a program reads."""
    text = json.dumps((await lean.call_tool(tool, CALLS[tool], raise_on_error=False)).structured_content)
    assert all(noise not in text for noise in ["null", "{}", "[]", '""', "granularity", "content_hash", "similarity"])


def test_answers_are_lean_by_default_only_in_the_core_profile() -> None:
    assert ServerOptions(profile=Profile.CORE).is_lean
    assert not ServerOptions(profile=Profile.CORE, answers=Answers.FULL).is_lean
    assert not ServerOptions().is_lean


PINNED = json.loads((Path(__file__).parents[1] / "real_client" / "package.json").read_text(encoding="utf-8"))
CLAUDE_CODE = {version for name, version in PINNED["optionalDependencies"].items() if "claude-code" in name}


@pytest.mark.parametrize("answers", Answers)
async def test_a_text_that_a_client_does_not_read_is_its_ids(filled: SessionMemoryStore, answers: Answers) -> None:
    """For every other client, and for the same one in another version, the text is the whole answer."""
    server = create_server(lambda: nullcontext(filled), ServerOptions(answers=answers))
    [version] = CLAUDE_CODE
    for name, of, is_read in [("claude-code", version, False), ("claude-code", "9.9", True), ("other", version, True)]:
        async with Client(server, client_info=Implementation(name=name, version=of)) as client:
            found = await client.call_tool("search_reports_specific_chunks", {"query": "invoices"})
            failed = await client.call_tool("get_memory_by_id", {"memory_id": 99}, raise_on_error=False)
        text = json.loads(found.content[0].text)
        assert text == found.structured_content if is_read else set(text["memory_ids"]) == {1, 2}
        assert found.structured_content is not None
        assert NOTE in json.dumps(found.structured_content)
        assert "no memory 99" in failed.content[0].text


def test_texts_are_shortened_only_for_versions_that_are_tested() -> None:
    assert READS_ONLY_STRUCTURE == {"claude-code": CLAUDE_CODE}


def whole_result(body: Any, text: str) -> str:
    """Return what Cline gives to its model."""
    result = {"content": [{"text": text, "type": "text"}], "isError": False, "structuredContent": body}
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


LIMITS: dict[str, tuple[str, Callable[[Any, str], int], int]] = {
    "cline": ("@cline/core", lambda body, text: len(whole_result(body, text)), 8_000),
    "copilot": ("copilot-cli", lambda _, text: len(text.encode()), 20_480),
    "qwen": ("qwen-cli-mcp-client-memory", lambda _, text: len(text), 28_000),
    "gemini": ("gemini-cli-mcp-client", lambda _, text: len(text), 40_000),
    "codex": ("codex-mcp-client", lambda body, _: len(json.dumps(body, ensure_ascii=False)), 48_000),
    "opencode": ("opencode", lambda _, text: len(text.encode()), 50 * 2**10),
}
"""What each counts of the structured part and the text, and how much of it is handed on whole."""

LONG_CALLS: dict[str, dict[str, object]] = {
    "search_reports_specific_chunks": {"query": "invoices \u00fc", "limit": 100},
    "search_reports_full_documents": {"limit": 100, "max_tokens": 100_000},
    "get_memory_by_id": {"memory_id": 1},
    "reconstruct_document": {"memory_id": 1},
    "expand_chunk_context": {"chunk_id": 1, "surrounding_chunks": 50},
    "load_session_context_for_task": {"session_id": "s", "max_tokens": 100_000},
    "search_changes": {"session_id": "s", "limit": 100, "max_tokens": 100_000},
}


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    settings = Settings(embedding_model="toy", warm_start_embedding_model=False, max_response_tokens=100_000)
    path = tmp_path_factory.mktemp("long") / "memory.db"
    with SessionMemoryStore(path, settings, embedder=ToyEngine()) as store:
        for number in range(4):
            store.store_memory(
                "report", f"# Invoices {number}\n\n" + 'An "invoice" of \u00fc.\n' * 3_000, session_id="s"
            )
        yield store


@pytest.mark.parametrize("answers", Answers)
@pytest.mark.parametrize("client", LIMITS)
async def test_no_client_cuts_an_answer(long_texts: SessionMemoryStore, client: str, answers: Answers) -> None:
    name, counted, most = LIMITS[client]
    server = create_server(lambda: nullcontext(long_texts), ServerOptions(answers=answers))
    sizes = {}
    async with Client(server, client_info=Implementation(name=name, version="1")) as caller:
        for tool, arguments in LONG_CALLS.items():
            answer = await caller.call_tool(tool, arguments)
            body, text = answer.structured_content, answer.content[0].text
            sizes[tool] = counted(body, text)
            compact = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
            if client in ("copilot", "qwen"):
                assert text == re.sub(r"(?<=[:,\[])(\d+)\.0(?=[,\]}])", r"\1", compact), "else both are handed on"
    assert most / 2 < max(sizes.values()) <= most, sizes


async def test_a_date_has_its_time_where_another_memory_is_of_that_day(lean: Client) -> None:
    """Of two memories of one day, the later one may correct the other."""
    await lean.call_tool("store_report", {"content": "The invoices start at 2000.", "agent_id": "a", "session_id": "s"})
    dates = {one["memory_id"]: one["date"] for one in (await found(lean, query="invoices start"))["results"]}
    assert dates[1] == "2026-03-01"
    assert all(len(dates[number]) == len("2026-03-01T10:20Z") for number in (2, 4))


TAGGED: dict[str, dict[str, Any]] = {
    "store_memory": {"content": "A note.", "category": "other", "tags": ["one"]},
    "search_memories": {"query": "note"},
    "list_recent_memories": {},
    "get_by_memory_id": {"memory_id": 4},
    "get_memory_stats": {},
    "get_canonical_tags": {},
}


async def test_tagged_memories_are_answered_in_the_lean_form(filled: SessionMemoryStore) -> None:
    """A note has its category and tags, and no result is empty."""
    filled.tagged.store("A note on invoices.", category="other", tags=["one"])
    server = create_server(lambda: nullcontext(filled), ServerOptions(answers=Answers.LEAN, toolsets="tagged"))
    async with Client(server) as client:
        answers = {tool: (await client.call_tool(tool, sent)).structured_content for tool, sent in TAGGED.items()}
    [note, _] = sorted((answers["search_memories"] or {})["results"], key=lambda one: one["memory_id"])
    assert note.keys() == {"memory_id", "date", "category", "tags", "match", "content"}
    assert "null" not in json.dumps(answers)


def test_what_only_is_related_shows_a_sentence_or_two() -> None:
    def shown(match: MatchLevel, page: Page = Page()) -> int:
        return room_of(hit_of(1, "x", match=match), page, 1.0)

    assert shown("related") < shown("related", Page(max_tokens=2_000)) < shown("strong")


def hit_of(number: int, text: str, day: int = 1, **fields: Any) -> FoundChunk:
    return FoundChunk(
        chunk_id=number, memory_id=number, chunk_index=0, chunk_content=text, chunk_type="text", header_path="",
        level=0, score=0.5, similarity=0.5, created_at=f"2026-03-{day:02}T10:00:00Z", **fields,
    )  # fmt: skip


def test_a_later_memory_takes_few_characters_and_fewest_if_it_is_a_result_itself() -> None:
    newer = {"id": 7, "agent_id": "a", "title": "T", "created_at": "2026-03-02T10:00:00Z"}
    shown = formed(hit_of(1, NOTE, later=[LaterMemory(**newer, beginning="New."), LaterMemory(**newer)], later_more=2))
    assert shown["later"] == [{"memory_id": 7, "date": "2026-03-02T10:00Z", "content": "New."}, {"memory_id": 7}]
    assert shown["later_more"] == 2


def test_one_who_reads_on_misses_nothing_between_the_parts() -> None:
    """`content_end` leads to the first gap, and where the beginning is missing, or little is shown, nowhere."""

    def read_on(*spans: tuple[int, int], match: MatchLevel = "strong") -> int | None:
        parts = [
            hit_of(1, REVIEW[start:end], content_start=start, content_end=None if end == 900 else end, match=match)
            for start, end in spans
        ]
        return joined_hits(parts).content_end

    assert read_on((0, 100)) == read_on((0, 100), (200, 300)) == read_on((200, 900), (0, 100)) == 100
    assert read_on((0, 100), (100, 300)) == 300
    assert read_on((0, 900)) is None
    assert read_on((50, 100)) is None
    assert read_on((0, 100), match="related") is None


@pytest.mark.parametrize("tool", ["expand_chunk_context", "reconstruct_document", "get_memory_by_id"])
async def test_a_memory_that_is_read_has_the_keys_of_a_hit(lean: Client, filled: SessionMemoryStore, tool: str) -> None:
    chunk = next(one.chunk_id for one in filled.search_chunks("router", Scope("report")).results if one.memory_id == 1)
    sent = {"chunk_id": chunk} if tool == "expand_chunk_context" else {"memory_id": 1}
    answer = (await lean.call_tool(tool, sent)).structured_content or {}
    read = answer.get("memory", answer)
    assert {"memory_id": 1, "agent": "ops", "date": "2026-03-01T10:20Z"}.items() <= read.items()
    assert STEPS in read["content"]
    assert not {"agent_id", "created_at", "expanded_content"} & read.keys()


async def test_a_list_goes_on_after_its_cursor(lean: Client, filled: SessionMemoryStore) -> None:
    whole = [one.id for one in filled.search_documents(None, Scope("report"), Page(limit=100)).results]
    arguments: dict[str, Any] = {"limit": 1}
    ids = []
    while len(ids) <= len(whole):
        answer = (await lean.call_tool("search_reports_full_documents", arguments)).structured_content or {}
        ids += [one["memory_id"] for one in answer["results"]]
        if "next_cursor" not in answer:
            break
        arguments["cursor"] = answer["next_cursor"]
    assert ids == whole
