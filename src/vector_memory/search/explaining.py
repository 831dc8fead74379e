"""Explains a search: how each candidate was measured, and why one was not returned."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.validation import parse_id
from vector_memory.results.rounding import to_score, to_thousandth
from vector_memory.results.shortening import fitting_values, value_size
from vector_memory.search.confidence import judged
from vector_memory.search.fusion import Hit, best_of_each_memory
from vector_memory.search.medium import CHUNKS_PER_SECTION, MatchedSection, rank_sections, sections_of
from vector_memory.search.question import Question
from vector_memory.search.relevance import arranged
from vector_memory.search.retrieval import MAX_DEPTH, Retrieval
from vector_memory.search.retriever import Retriever
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Memory
from vector_memory.storage.scoring import LATE_UNITS, LATE_WEIGHT, VECTOR_WEIGHT, VECTOR_WEIGHT_OF_NAMES
from vector_memory.storage.terms import terms
from vector_memory.storage.unit_text import names_above

EVERYTHING = "all"
"""The value of `explain` that asks for the candidates only, not why one memory or file was not found."""

SHOWN = 10
"""Candidates behind the page that are shown."""

Trace = dict[str, Any]

Grain = Literal["chunk", "section", "document"]
"""The size of a result."""


class Asked(NamedTuple):
    """What a trace explains: a page of results of one size, and the memory that somebody misses there.

    `shown`: the places of the results that the page shows, where it shows those of several searches; None: all.
    """

    page: Page
    grain: Grain = "chunk"
    memory_id: str | int | None = None
    shown: range | None = None


class Ranking(NamedTuple):
    """All units of a scope that were compared, best first, and the results that they belong to.

    `places`: of each unit's result among all results; None: in none. `scores`: of the results. `shown`: the places on
    the page. `most`: the units of which sections are made. `question`: as it was compared.
    """

    hits: Sequence[Hit]
    places: Sequence[int | None]
    scores: Sequence[float]
    shown: range
    most: int
    question: Question

    def nearness(self, index: int) -> tuple[bool, bool, int]:
        """Return a key that sorts units: on the page, in another result, in none."""
        place = self.places[index]
        return place is None, place not in self.shown, index if place is None else place


class Explaining:
    """Explains the ranking of units (chunks, or memories that are not chunked) on which every search is based."""

    def __init__(self, storage: Storage, retriever: Retriever) -> None:
        self._storage = storage
        self._retriever = retriever

    def kind_of(self, memory_id: str | int, name: str = "memory_id") -> str | None:
        """Return the kind of a memory; None if there is no such memory. Raises ValidationError."""
        number = parse_id(name, memory_id)
        with self._storage.read() as reader:
            origin = reader.origins([number]).get(number)
            return None if origin is None else origin.memory_type

    def require_comparable(self) -> None:
        """Raise EmbeddingUnavailableError if no query can be compared by meaning."""
        with self._storage.read() as reader:
            self._retriever.require_comparable(reader)

    def explain(self, query: str, scope: Scope, asked: Asked, mode: SearchMode | None = None) -> Trace:
        """Return the query's words, the filters, and the candidates; of a memory, why it was not found.

        A candidate has its rank, id and memory_id, score, cosine (None: not compared), share of the words (`words`),
        late score (`late`; None: not compared), the words that it has, those of them that only its title or its
        headings have, the words that it lacks, and its fate: where the result is that it is or belongs to. Raises
        ValidationError, EmbeddingUnavailableError.
        """
        number = None if asked.memory_id is None else parse_id("memory_id", asked.memory_id)
        question = self._retriever.prepare(query, mode, scope)
        with self._retriever.answering(question, scope) as retrieval:
            ranking = ranking_of(retrieval, scope, asked)
            last = min(asked.page.end + SHOWN, len(ranking.hits))
            shown = candidates(retrieval, scope, ranking, range(last))
            told = {} if number is None else {"memory": why(retrieval, scope, ranking, number)}
        hits, question = ranking.hits, ranking.question
        late = any(hit.late is not None for hit in hits)
        return {
            "compared": compared(question, late=late) + ("" if late else no_late(question, hits)),
            "query_words": list(question.terms or ()),
            "filters": scope.as_filters(),
            "candidates_compared": len(hits),
            "candidates": shown,
            **told,
        }

    def list(self, scope: Scope, memory_id: str | int | None) -> Trace:
        """Return what `explain` does for a search that compares nothing."""
        told = {}
        if memory_id is not None:
            number = parse_id("memory_id", memory_id)
            with self._storage.read() as reader:
                told = {"memory": {"id": number, "why": why_listed(reader, scope, number)}}
        return {"compared": "nothing: they are listed by time", "filters": scope.as_filters(), **told}


def ranking_of(retrieval: Retrieval, scope: Scope, asked: Asked) -> Ranking:
    """Rank all units of a scope, and find their places among the results. Raises ValidationError."""
    found, grain, most = retrieval.everything(scope), asked.grain, asked.page.limit * CHUNKS_PER_SECTION
    hits = judged(found, retrieval.question)
    if scope.kind is not None and not TRAITS[scope.kind].chunked:
        grain = "chunk"
    units = best_of_each_memory(hits) if grain == "document" else hits
    enough = [unit for unit in units if retrieval.is_similar_enough(unit)]
    results: Sequence[Hit | MatchedSection] = enough
    if grain == "section":
        outlines = retrieval.reader.outlines(sorted({hit.memory_id for hit in enough[:most]}))
        results = rank_sections(sections_of(outlines), enough[:most])
    ordered, on_page, _ = arranged(results, asked.page)
    place_of = {
        hit.id: place
        for place, result in enumerate(ordered)
        for hit in (result.hits if isinstance(result, MatchedSection) else (result,))
    }
    return Ranking(
        hits,
        [place_of.get(hit.memory_id if grain == "document" else hit.id) for hit in hits],
        [result.score for result in ordered],
        on_page if asked.shown is None else asked.shown,
        most,
        replace(retrieval.question, weight=found.weight),
    )


def fate(retrieval: Retrieval, ranking: Ranking, index: int) -> str:
    """Return what became of a unit."""
    place = ranking.places[index]
    if place is not None:
        where = "an earlier" if place < ranking.shown.start else "a later"
        return "on this page" if place in ranking.shown else f"on {where} page"
    if retrieval.is_similar_enough(ranking.hits[index]):
        return f"sections are made of the best {ranking.most} chunks"
    return f"cut: similarity below VECTOR_MEMORY_SIMILARITY_THRESHOLD ({retrieval.threshold:g})"


def compared(question: Question, *, late: bool) -> str:
    """Say what was compared, and why the rest was not. `late`: the best units were compared token by token."""
    if question.is_reference:
        return "words only: the query is only a number, a code or an address"
    if question.vector is None:
        return question.problem or "words only"
    if question.terms is None:
        return f"meaning only: {1 - LATE_WEIGHT:g} x cosine + {LATE_WEIGHT:g} x late" if late else "meaning only"
    formula = f"{question.weight:.2g} x cosine + {1 - question.weight:.2g} x words"
    if late:
        formula = f"{1 - LATE_WEIGHT:g} x ({formula}) + {LATE_WEIGHT:g} x late"
    if question.calibration.weight < 1:
        return f"{formula}: the model cannot read all of the question"
    if question.weight not in (VECTOR_WEIGHT, VECTOR_WEIGHT_OF_NAMES):
        return f"{formula}: cosines count less while vectors are missing, and only words where there is no vector"
    return f"{formula}: the query is only a name" if question.weight < VECTOR_WEIGHT else formula


def no_late(question: Question, hits: Sequence[Hit]) -> str:
    """Say why units that could be compared token by token were not; nothing if there are none."""
    if question.states is None or not hits or any(hit.similarity is None for hit in hits[:LATE_UNITS]):
        return ""
    return "; not token by token: some passages have no states of their tokens, and `vector-memory reembed` adds them"


def candidates(retrieval: Retrieval, scope: Scope, ranking: Ranking, indices: Sequence[int]) -> list[Trace]:
    """Return how these candidates were measured."""
    hits = [ranking.hits[index] for index in indices]
    units = units_of(retrieval, scope, hits)
    return [
        {"rank": index + 1, **measures(ranking.question, hit, *units[hit.id]), "fate": fate(retrieval, ranking, index)}
        for index, hit in zip(indices, hits, strict=True)
    ]


def measures(question: Question, hit: Hit, names: str, text: str) -> Trace:
    """Return the measures of a candidate. `names`: the title of its memory, and the headings that enclose it."""
    above, within = set(terms(names)), set(terms(text))
    wanted, cosine = question.terms or (), hit.cosine(question.weight)
    return {
        "id": hit.id,
        "memory_id": hit.memory_id,
        "score": to_score(hit.score),
        "cosine": None if cosine is None else to_thousandth(cosine),
        "words": None if hit.words is None else to_thousandth(hit.words),
        "late": None if hit.late is None else to_thousandth(hit.late),
        "has": [term for term in wanted if term in above | within],
        "in_headings": [term for term in wanted if term in above - within],
        "lacks": [term for term in wanted if term not in above | within],
    }


def units_of(retrieval: Retrieval, scope: Scope, hits: Sequence[Hit]) -> dict[int, tuple[str, str]]:
    """Return the names above units, and their texts."""
    ids, reader = [hit.id for hit in hits], retrieval.reader
    if scope.kind is not None and TRAITS[scope.kind].chunked:
        origins = reader.origins([hit.memory_id for hit in hits])
        return {
            number: ("\n".join(names_above(origins[part.memory_id].title, part.chunk.headings)), part.chunk.text)
            for number, part in reader.chunks(ids).items()
        }
    return {number: (memory.title or "", memory.content) for number, memory in reader.memories(ids).items()}


def why(retrieval: Retrieval, scope: Scope, ranking: Ranking, memory_id: int) -> Trace:
    """Say where a memory ranks, or why it does not rank."""
    memory = retrieval.reader.memories([memory_id]).get(memory_id)
    if (said := exclusion(scope, memory)) or memory is None:
        return {"id": memory_id, "found": False, "why": said}
    units = [index for index, hit in enumerate(ranking.hits) if hit.memory_id == memory_id]
    if not units:
        return {"id": memory_id, "found": False, "why": not_compared(retrieval.question, memory, ranking)}
    index = min(units, key=ranking.nearness)
    [best] = candidates(retrieval, scope, ranking, [index])
    place = ranking.places[index]
    if place is None:
        said = f"It is in no result: {best['fate']}."
    elif place in ranking.shown:
        said = "It is on this page; if the answer does not show it, it did not fit."
    else:
        said = f"It ranks {place + 1} with a score of {to_score(ranking.scores[place])}, {best['fate']}"
        on_page = ranking.scores[ranking.shown.start : ranking.shown.stop]
        said += f"; the last result of this page has {to_score(on_page[-1])}." if on_page else "."
    return {"id": memory_id, "found": place in ranking.shown, "why": said, "best": best}


def why_listed(reader: Reader, scope: Scope, memory_id: int) -> str:
    """Say why a memory may not be on a page of the newest."""
    memory = reader.memories([memory_id]).get(memory_id)
    if (said := exclusion(scope, memory)) or memory is None:
        return said
    return f"It passes the filters; it is on the page of its iteration ({memory.session_iter}) and time."


def not_compared(question: Question, memory: Memory, ranking: Ranking) -> str:
    """Say why a memory in the scope is not in the ranking."""
    is_full = len(ranking.hits) >= MAX_DEPTH
    if question.vector is None and is_full:
        return f"At least {MAX_DEPTH:,} others come before it, or it has none of the query's words."
    if question.vector is None:
        return "It has none of the query's words, and meaning was not compared."
    if memory.chunked and not memory.chunk_count:
        return "It has no chunks yet: a server adds them in the background, or `vector-memory backfill` at once."
    if is_full:
        return f"At least {MAX_DEPTH:,} others come before it, or it has no vector yet."
    lacks = "It has no vector yet" if question.terms is None else "It has no vector yet and none of the query's words"
    return f"{lacks}: a server computes vectors in the background, or `vector-memory backfill` at once."


def exclusion(scope: Scope, memory: Memory | None) -> str:
    """Say which filters exclude a memory, or that it is not there; nothing if it is in the scope."""
    if memory is None:
        return "There is no such memory: it was deleted or never stored here."
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
    failed = [name for name, is_inside in passed.items() if not is_inside]
    return f"It is outside the filters: {', '.join(failed)}." if failed else ""


def fitting(trace: Trace, room: int) -> Trace | None:
    """Return a trace in at most `room` bytes, without its last candidates if need be; None: it does not fit."""
    candidates = trace.get("candidates", [])
    rest = trace | ({"candidates": []} if candidates else {})
    left = room - value_size({"trace": rest})
    if left < 0:
        return None
    return trace | {"candidates": fitting_values(candidates, left)} if candidates else trace
