"""Answers are as long as requested, and results that do not fit are named and can be requested."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lattice import LatticeEmbedder
from paging import pages
from vector_memory.domain import Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError, ValidationError
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report", session_id="s")
Search = Callable[..., Any]
SEARCHES: dict[str, Callable[[SessionMemoryStore], Search]] = {
    "chunks": lambda store: lambda **page: store.search_chunks("word1 filler", REPORTS, Page(**page)),
    "sections": lambda store: lambda **page: store.search_sections("word1 filler", REPORTS, Page(**page)),
    "documents": lambda store: lambda **page: store.search_documents("word1", REPORTS, Page(**page), order="relevance"),
    "recent": lambda store: lambda **page: store.search_documents(None, REPORTS, Page(**page)),
    "scoped": lambda store: lambda **page: store.search_scoped(REPORTS, Page(**page)),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    """Twelve reports of one chunk and one section each."""
    for number in range(12):
        store.store_memory("report", f"# Part {number}\n\nword{number} " + "filler " * 25, session_id="s")
    return store


@pytest.fixture
def half_embedded(filled: SessionMemoryStore, tmp_path: Path) -> SessionMemoryStore:
    """Also as many without vectors, with the same words."""
    with SessionMemoryStore(tmp_path / "memory.db", filled.settings, model=EmbeddingModel(no_engine)) as other:
        for number in range(12):
            other.store_memory("report", f"# Late {number}\n\nword{number} " + "filler " * 25, session_id="s")
    return filled


def no_engine() -> LatticeEmbedder:
    raise EmbeddingUnavailableError("There is no model.")


def joined(ask: Search, limit: int) -> list[int]:
    """Return the results of all pages, one after another."""
    return [key(result) for page in pages(lambda offset: ask(limit=limit, offset=offset)) for result in page.results]


def key(result: Any) -> int:
    return int(getattr(result, "memory_id", None) or result.id)


@every_search
def test_pages_join_to_the_whole_list(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    ask = search(filled)
    whole = ask(limit=12)
    assert (len(whole.results), whole.next_offset) == (12, None)
    assert joined(ask, 5) == [key(result) for result in whole.results]


@pytest.mark.parametrize("limit", [1, 5, 7])
@pytest.mark.parametrize("kind", SEARCHES)
def test_pages_join_while_half_of_the_results_lack_vectors(
    half_embedded: SessionMemoryStore, kind: str, limit: int
) -> None:
    ask = SEARCHES[kind](half_embedded)
    seen = joined(ask, limit)
    if kind == "sections":  # the limit says how many chunks are looked at
        assert len(seen) == len(set(seen))
    else:
        whole = [key(result) for result in ask(limit=100).results]
        assert max(whole) > 12
        assert seen == whole


@every_search
def test_a_short_answer_names_what_it_omits_and_where_to_continue(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    ask = search(filled)
    whole, short = ask(limit=12), ask(limit=12, max_tokens=800)
    kept = len(short.results)
    assert 0 < kept < 12
    assert sum(len(result.model_dump_json()) for result in short.results) <= 800 * 3
    assert [key(result) for result in short.results] == [key(result) for result in whole.results][:kept]
    assert len(short.omitted) == 12 - kept
    assert all(left.characters > 0 for left in short.omitted)
    assert short.next_offset == kept
    assert f"offset={kept}" in short.message
    rest = ask(limit=12, offset=short.next_offset)
    assert [key(result) for result in (*short.results, *rest.results)] == [key(result) for result in whole.results]


def test_no_answer_is_longer_than_the_settings_allow(filled: SessionMemoryStore, tmp_path: Path) -> None:
    settings = filled.settings.model_copy(update={"max_response_tokens": 500})
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as store:
        answer = store.search_chunks("word1", REPORTS, Page(limit=12))
        assert len(answer.results) < 12
        assert store.search_chunks("word1", REPORTS, Page(limit=12, max_tokens=10**9)) == answer


def test_a_later_page_of_sections_is_ranked_by_the_same_chunks_as_the_first(store: SessionMemoryStore) -> None:
    parts = "\n\n".join(f"# S{part}\n\n" + " ".join(f"w{part}{word}" for word in range(140)) for part in range(9))
    store.store_memory("report", parts, session_id="s")
    chunks = store.search_chunks("w11 w22 w33 w44", REPORTS, Page(limit=10), mode="vector").results
    found: dict[str, list[float]] = {}
    for chunk in chunks:
        found.setdefault(chunk.header_path, []).append(chunk.similarity or 0.0)
    expected = sorted(found, key=lambda header: -fmean(found[header]))
    assert any(len(similarities) > 1 for similarities in found.values())
    for offset in range(0, len(expected), 2):
        page = store.search_sections("w11 w22 w33 w44", REPORTS, Page(limit=2, offset=offset), mode="vector").results
        assert [section.section_header for section in page] == expected[offset : offset + 2]


@every_search
def test_after_the_last_result_there_is_none(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    page = search(filled)(limit=5, offset=40)
    assert (page.results, page.next_offset) == ([], None)
    assert page.message


@pytest.mark.parametrize("page", [{"offset": -1}, {"offset": 10_001}, {"max_tokens": 199}, {"offset": True}])
def test_an_invalid_page_is_refused(filled: SessionMemoryStore, page: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(page))):
        filled.search_chunks("word1", REPORTS, Page(limit=5, **page))
