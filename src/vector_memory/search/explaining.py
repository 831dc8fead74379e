"""Explains a search: how each candidate was measured, and why one was not returned."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, SearchMode
from vector_memory.results.values import to_score, to_thousandth
from vector_memory.search.fusion import Hit
from vector_memory.search.question import Question
from vector_memory.search.retriever import MAX_DEPTH, Retrieval, Retriever
from vector_memory.storage.base import Storage
from vector_memory.storage.ranking import VECTOR_WEIGHT
from vector_memory.storage.records import Memory
from vector_memory.storage.terms import terms
from vector_memory.validation import parse_id

SHOWN = 10
"""Candidates behind the page that are shown."""

Trace = dict[str, Any]


class Ranking(NamedTuple):
    """All units of a scope that were compared, best first, and the page of them that an answer returns."""

    hits: Sequence[Hit]
    page: Page
    threshold: float | None

    def fate(self, index: int) -> str:
        """Return what became of the candidate at this place."""
        hit = self.hits[index]
        if self.threshold is not None and hit.similarity is not None and hit.similarity < self.threshold:
            return f"cut: similarity below VECTOR_MEMORY_SIMILARITY_THRESHOLD ({self.threshold:g})"
        if index < self.page.offset:
            return f"before offset {self.page.offset}"
        return "on this page" if index < self.page.end else f"behind limit {self.page.limit}"


class Explaining:
    """Explains the ranking of units (chunks, or memories that are not chunked) on which every search is based."""

    def __init__(self, storage: Storage, retriever: Retriever) -> None:
        self._storage = storage
        self._retriever = retriever

    def kind_of(self, memory_id: str | int) -> str | None:
        """Return the kind of a memory; None if there is no such memory."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            origin = reader.origins([number]).get(number)
            return None if origin is None else origin.memory_type

    def explain(
        self, query: str, scope: Scope, page: Page, mode: SearchMode | None, memory_id: str | int | None
    ) -> Trace:
        """Return the query's words, the filters, and the candidates; of `memory_id`, why it was not found.

        A candidate has its rank, id and memory_id, score, cosine (None: not compared), share of the words (`words`),
        the words that it has and lacks, and its fate. Raises ValidationError, EmbeddingUnavailableError.
        """
        number = None if memory_id is None else parse_id("memory_id", memory_id)
        question = self._retriever.prepare(query, mode, scope)
        with self._retriever.answering(question, scope) as retrieval:
            threshold, retrieval.threshold = retrieval.threshold, None
            found = retrieval.find(scope, MAX_DEPTH)
            ranking = Ranking(found.hits, page, threshold)
            shown = candidates(retrieval, scope, ranking, range(min(page.end + SHOWN, len(found.hits))))
            told = {} if number is None else {"memory": why(retrieval, scope, ranking, number)}
        asked = retrieval.question
        return {
            "compared": compared(asked),
            "query_words": list(asked.terms or ()),
            "filters": scope.as_filters(),
            "candidates_compared": len(found.hits),
            "candidates": shown,
            **told,
        }


def compared(question: Question) -> str:
    """Say what was compared, and why not more."""
    if question.vector is None:
        reason = "the query is only a number, a code or an address" if question.is_reference else question.problem
        return f"words only: {reason}" if reason else "words only"
    if question.terms is None:
        return "meaning only"
    formula = f"{question.weight:g} x cosine + {1 - question.weight:g} x words"
    return f"{formula}: the query is only a name" if question.weight < VECTOR_WEIGHT else formula


def candidates(retrieval: Retrieval, scope: Scope, ranking: Ranking, places: Sequence[int]) -> list[Trace]:
    """Return how the candidates at these places were measured."""
    hits = [ranking.hits[place] for place in places]
    texts = texts_of(retrieval, scope, hits)
    return [
        {"rank": place + 1, **measures(retrieval.question, hit, texts[hit.id]), "fate": ranking.fate(place)}
        for place, hit in zip(places, hits, strict=True)
    ]


def measures(question: Question, hit: Hit, text: str) -> Trace:
    """Return the measures of a candidate."""
    known, wanted = set(terms(text)), question.terms
    share = None
    if wanted is not None:
        by_meaning = question.weight * (hit.similarity or 0.0)
        share = hit.score if question.vector is None else (hit.score - by_meaning) / (1 - question.weight)
    return {
        "id": hit.id,
        "memory_id": hit.memory_id,
        "score": to_score(hit.score),
        "cosine": None if hit.similarity is None else to_thousandth(hit.similarity),
        "words": None if share is None else to_score(share),
        "has": [term for term in wanted or () if term in known],
        "lacks": [term for term in wanted or () if term not in known],
    }


def texts_of(retrieval: Retrieval, scope: Scope, hits: Sequence[Hit]) -> dict[int, str]:
    """Return the texts of units."""
    ids = [hit.id for hit in hits]
    if scope.kind is not None and TRAITS[scope.kind].chunked:
        return {number: stored.chunk.text for number, stored in retrieval.reader.chunks(ids).items()}
    return {number: memory.content for number, memory in retrieval.reader.memories(ids).items()}


def why(retrieval: Retrieval, scope: Scope, ranking: Ranking, memory_id: int) -> Trace:
    """Say where in the ranking a memory is, or why it is not there."""
    memory = retrieval.reader.memories([memory_id]).get(memory_id)
    if memory is None:
        return {"id": memory_id, "found": False, "why": "There is no such memory: it was deleted or never stored here."}
    if names := failed_filters(scope, memory):
        return {"id": memory_id, "found": False, "why": f"It is outside the filters: {', '.join(names)}."}
    places = [place for place, hit in enumerate(ranking.hits) if hit.memory_id == memory_id]
    if not places:
        return {"id": memory_id, "found": False, "why": not_compared(retrieval.question, memory)}
    [best] = candidates(retrieval, scope, ranking, places[:1])
    last = ranking.hits[: ranking.page.end][-1]
    is_found = best["fate"] == "on this page"
    said = (
        "It is on this page; if the answer does not show it, it did not fit: see omitted."
        if is_found
        else f"It ranks {best['rank']} with a score of {best['score']} ({best['fate']}); the last result of the page "
        f"has {to_score(last.score)}."
    )
    return {"id": memory_id, "found": is_found, "why": said, "best": best}


def not_compared(question: Question, memory: Memory) -> str:
    """Say why a memory in the scope is not in the ranking."""
    if question.vector is None:
        return "It has none of the query's words, and meaning was not compared."
    if memory.chunked and not memory.chunk_count:
        return "It has no chunks yet: a server adds them in the background, or `vector-memory backfill` at once."
    return (
        f"It has no vector yet and none of the query's words, or more than {MAX_DEPTH:,} others come before it: "
        "`vector-memory backfill` computes missing vectors."
    )


def failed_filters(scope: Scope, memory: Memory) -> list[str]:
    """Return the names of the filters that exclude a memory."""
    passed = {
        "memory_type": scope.kind in (None, MemoryKind(memory.memory_type)),
        "agent_id": scope.agent_id in (None, memory.agent_id),
        "session_id": scope.session_id in (None, memory.session_id),
        "session_iter": scope.session_iter in (None, memory.session_iter),
        "task_code": scope.task_code in (None, memory.task_code),
        "category": scope.category in (None, memory.metadata.get("category")),
        "tags": not scope.tags or bool({*scope.tags} & {*memory.tags}),
        "own_agent_id": scope.own_agent_id is None or scope.own_agent_id != memory.agent_id,
        "created_after": (scope.created_after or "") <= memory.created_at,
        "created_before": scope.created_before is None or memory.created_at <= scope.created_before,
    }
    return [name for name, is_inside in passed.items() if not is_inside]
