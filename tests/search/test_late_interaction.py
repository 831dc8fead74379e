"""The best units of a search are compared token by token, with the results of comparing them one by one by hand."""

import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from clusters import schema_url
from inside import retriever_of, storage_of
from lattice import DIMENSIONS, LatticeEmbedder
from search.test_exact import WORDS
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode
from vector_memory.embedding.embedder import Encoded, EncodedQuestion
from vector_memory.embedding.token_states import compare, of_question, packed
from vector_memory.search.explain import ExplainRequest
from vector_memory.search.rank import FUSED_DECIMALS
from vector_memory.settings import Settings
from vector_memory.storage.scoring import LATE_UNITS, LATE_WEIGHT
from vector_memory.store import SessionMemoryStore

REPORTS, NOTES = Scope(MemoryKind.REPORT, session_id="s"), Scope(MemoryKind.SYSTEM_MEMORY, session_id="s")
COUNT = 3 * LATE_UNITS
QUERIES = ("a b c", "l", "d e f g h", "k a unknown")


class WithStates(LatticeEmbedder):
    """An embedder that has a state for each word: the word's own vector."""

    has_states = True

    def encode(self, texts: Sequence[str]) -> Encoded:
        return Encoded(self.embed(texts), [packed(states(text)) for text in texts])

    def encode_query(self, text: str) -> EncodedQuestion:
        return EncodedQuestion(super().encode_query(text).vector, of_question(states(text)))


def states(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([LatticeEmbedder.vector(word) for word in text.split()], np.float32).reshape(-1, DIMENSIONS)


def new_place(engine: str, folder: Path) -> Path | str:
    return folder / "memory.db" if engine == "sqlite" else schema_url(f"test_{uuid4().hex}")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return new_place(request.param, tmp_path)


def opened(place: Path | str, embedder: LatticeEmbedder | None = None, **changes: Any) -> SessionMemoryStore:
    settings = Settings(
        embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8, **changes
    )
    return SessionMemoryStore(place, settings, embedder=embedder or WithStates())


def fill(store: SessionMemoryStore) -> None:
    """Store reports of up to eight passages in three chunks, and notes of one to three passages."""
    drawn = random.Random(5)
    for number in range(COUNT):
        for kind, longest in (("report", 90), ("system_memory", 9)):
            words = drawn.choices(WORDS, k=drawn.randint(1, longest))
            store.store_memory(kind, f"{number} {' '.join(words)}", session_id="s")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | str:
    """A memory that tests only read."""
    place = new_place(request.param, tmp_path_factory.mktemp("filled"))
    with opened(place) as store:
        fill(store)
    return place


@pytest.fixture
def own(place: Path | str) -> Path | str:
    """The same memory for a single test."""
    with opened(place) as store:
        fill(store)
    return place


@pytest.fixture(scope="module")
def store(filled: Path | str) -> Iterator[SessionMemoryStore]:
    with opened(filled) as found:
        yield found


def by_hand(filled: Path | str, scope: Scope, query: str) -> list[tuple[float, int]]:
    """Return the late ranking of a scope's units as pairs of score and id, from the ranking without it."""
    question = of_question(states(query))
    with opened(filled, late_interaction=False) as store:
        hits, late = unrounded(store, scope, query), {}
        with storage_of(store).read() as reader:
            for hit in hits[:LATE_UNITS]:
                memory, stored = reader.memories.get(hit.memory_id), reader.chunks.get(hit.id)
                number = stored.chunk.index if scope is REPORTS and stored is not None else None
                passages = [each for each in reader.vectors.passages_of(memory) if each.chunk == number]
                texts = [memory.content[each.start : each.end] for each in passages]
                late[hit.id] = compare(question, {hit.id: [packed(states(text)) for text in texts]})[hit.id].score
    lowest = min(late.values())
    joined = [
        (round((1 - LATE_WEIGHT) * hit.score + LATE_WEIGHT * late.get(hit.id, lowest), FUSED_DECIMALS), hit.id)
        for hit in hits
    ]
    return sorted(joined, key=lambda pair: (-pair[0], pair[1]))


def unrounded(store: SessionMemoryStore, scope: Scope, query: str) -> list[Any]:
    retriever = retriever_of(store)
    with retriever.answering(retriever.prepare(query, SearchMode.HYBRID, scope), scope) as retrieval:
        return retrieval.everything().hits


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("scope", [REPORTS, NOTES], ids=["chunks", "whole memories"])
def test_the_order_equals_a_comparison_by_hand(
    store: SessionMemoryStore, filled: Path | str, scope: Scope, query: str
) -> None:
    expected = by_hand(filled, scope, query)
    assert [(hit.score, hit.id) for hit in unrounded(store, scope, query)] == expected
    assert expected != sorted(expected, key=lambda pair: pair[1])


@pytest.mark.parametrize("query", QUERIES)
def test_pages_follow_each_other_without_a_gap(store: SessionMemoryStore, query: str) -> None:
    whole = store.search_chunks(query, REPORTS, Page(limit=COUNT)).results
    pages = [
        result
        for offset in range(0, COUNT, 7)
        for result in store.search_chunks(query, REPORTS, Page(limit=7, offset=offset)).results
    ][:COUNT]
    assert [(hit.chunk_id, hit.score) for hit in pages] == [(hit.chunk_id, hit.score) for hit in whole]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("limit", [1, 10, COUNT])
def test_documents_rank_by_the_best_of_their_chunks(store: SessionMemoryStore, query: str, limit: int) -> None:
    best: dict[int, float] = {}
    for hit in unrounded(store, REPORTS, query):
        best.setdefault(hit.memory_id, hit.score)
    found = store.search_documents(query, REPORTS, Page(limit=limit), order="relevance").results
    assert [memory.id for memory in found] == list(best)[:limit]


def test_a_trace_tells_the_late_score_and_the_cosine_and_the_words_that_make_a_score(store: SessionMemoryStore) -> None:
    trace = store.explaining.explain("a b c", REPORTS, ExplainRequest(Page(limit=30)), None)
    assert trace["compared"] == "0.7 x (0.68 x cosine + 0.32 x words) + 0.3 x late"
    for one in trace["candidates"]:
        fused = 0.68 * one["cosine"] + 0.32 * one["words"]
        assert one["score"] == pytest.approx(max(0.0, 0.7 * fused + 0.3 * one["late"]), abs=2e-3)


def test_a_scope_with_a_passage_whose_states_are_not_kept_ranks_without_them(own: Path | str) -> None:
    with opened(own, late_interaction=False) as store:
        store.store_memory("system_memory", "a b c", session_id="s")
        expected = [(hit.score, hit.id) for hit in unrounded(store, NOTES, "a b c")]
        others = unrounded(store, REPORTS, "a b c")
    with opened(own) as store:
        assert [(hit.score, hit.id) for hit in unrounded(store, NOTES, "a b c")] == expected
        assert unrounded(store, REPORTS, "a b c") != others


def test_a_trace_says_why_a_scope_was_not_compared_token_by_token(own: Path | str) -> None:
    """Only if something can be done about it."""
    with opened(own, late_interaction=False) as store:
        store.store_memory("system_memory", "a b c", session_id="s")
        assert "token" not in explained(store, NOTES)
    with opened(own) as store:
        assert "`vector-memory reembed` adds them" in explained(store, NOTES)
        for scope in (REPORTS, Scope(MemoryKind.REPORT, session_id="empty")):
            assert "token" not in explained(store, scope)


def explained(store: SessionMemoryStore, scope: Scope) -> str:
    return str(store.explaining.explain("a b c", scope, ExplainRequest(Page(limit=1)), None)["compared"])


@pytest.mark.parametrize("mode", [SearchMode.KEYWORD, SearchMode.VECTOR])
def test_words_alone_are_not_compared_token_by_token_but_meaning_alone_is(
    store: SessionMemoryStore, mode: SearchMode
) -> None:
    trace = store.explaining.explain("a b c", REPORTS, ExplainRequest(Page(limit=1)), mode)
    assert (trace["candidates"][0]["late"] is None) == (mode is SearchMode.KEYWORD)


def test_reembed_adds_the_states_that_are_not_kept_yet(own: Path | str) -> None:
    with opened(own) as store:
        expected = [(hit.score, hit.id) for hit in unrounded(store, REPORTS, "a b c")]
        assert store.reembed().memories == 0
    with opened(own, late_interaction=False) as store:
        for memory_id in range(1, 1 + 2 * COUNT):
            store.delete_memory(memory_id)
        fill(store)
        assert store.reembed().memories == 0
    with opened(own) as store:
        assert store.reembed().memories == 2 * COUNT
        assert [hit[0] for hit in expected] == [hit.score for hit in unrounded(store, REPORTS, "a b c")]
        assert store.reembed().memories == 0


def test_an_export_with_vectors_has_the_states(filled: Path | str, tmp_path: Path) -> None:
    with opened(filled) as store:
        expected = [(hit.score, hit.id) for hit in unrounded(store, NOTES, "a b c")]
        store.export_memories(lines := io.BytesIO(), with_vectors=True)
    with opened(tmp_path / "imported.db", LatticeEmbedder()) as store:
        store.import_memories(io.BytesIO(lines.getvalue()))
    with opened(tmp_path / "imported.db") as store:
        assert [hit.score for hit in unrounded(store, NOTES, "a b c")] == [score for score, _ in expected]
