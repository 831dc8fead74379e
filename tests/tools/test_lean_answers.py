"""Lean answers: what a model reads of an answer, and nothing else."""

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastmcp import Client
from mcp_types import Implementation

from vector_memory.domain import MatchLevel, MemoryKind, Page, Scope
from vector_memory.results.sessions import FoundChunk, LaterMemory
from vector_memory.server.app import create_server
from vector_memory.server.lean import formed, joined, room_of
from vector_memory.server.tools.memory_tool import READS_ONLY_STRUCTURE
from vector_memory.settings import Answers, Profile, ServerOptions
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

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
        return joined(parts).content_end

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
