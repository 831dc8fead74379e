"""Explains a search: how each candidate was scored, and why one was not returned."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from vector_memory.answers.budget import fitting_values, value_size
from vector_memory.answers.models import to_score, to_thousandth
from vector_memory.domain import ANY, TRAITS, Page, Scope, SearchMode, State
from vector_memory.domain.validation import parse_id
from vector_memory.search.answer import GRAINS, GrainName, chunks_for, results_for
from vector_memory.search.copies import MatchedSection
from vector_memory.search.judge import Judgement, arranged, judged
from vector_memory.search.question import Question
from vector_memory.search.rank import Hit, best_of_each_memory
from vector_memory.search.retrieval import MAX_DEPTH, Retrieval, Retriever
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.queries.filters import ascii_lower
from vector_memory.storage.records import Moment
from vector_memory.storage.scoring import LATE_UNITS, LATE_WEIGHT, VECTOR_WEIGHT, VECTOR_WEIGHT_OF_NAMES
from vector_memory.texts.terms import names_above, terms

NO_STATES = "not token by token: some passages have no states of their tokens, and `vector-memory reembed` adds them"

SHOWN = 10
"""Number of candidates shown after those of the page."""

BEGINNING = 200
"""Characters of the text that names a memory without a title."""

Trace = dict[str, Any]


class ExplainRequest(NamedTuple):
    """What a trace explains: a page of results, and a memory that is missing there.

    `shown`: the results of this search on a page that merges several searches; None: the whole page.
    """

    page: Page
    grain: GrainName = "chunk"
    memory_id: str | int | None = None
    shown: range | None = None


class RankedUnits(NamedTuple):
    """All compared units, best first, and the results they belong to.

    `places`: the place of each unit's result; None: in no result. `fates`: what became of each unit. `scores`: of the
    results. `shown`: the places on the page. `question`: as it was compared.
    """

    question: Question
    hits: Sequence[Hit]
    places: Sequence[int | None]
    fates: Sequence[str]
    scores: Sequence[float]
    shown: range

    def candidate(self, index: int, names: str, text: str) -> Trace:
        """Return the measurements of a unit. `names`: the title of its memory and the headings above it."""
        hit, above, within, wanted = self.hits[index], {*terms(names)}, {*terms(text)}, self.question.terms or ()
        measures = {"cosine": hit.cosine(self.question.weight), "words": hit.words, "late": hit.late}
        return {
            "rank": index + 1,
            "id": hit.id,
            "memory_id": hit.memory_id,
            "score": to_score(hit.score),
            **{name: None if value is None else to_thousandth(value) for name, value in measures.items()},
            "has": [term for term in wanted if term in above | within],
            "in_headings": [term for term in wanted if term in above - within],
            "lacks": [term for term in wanted if term not in above | within],
            "fate": self.fates[index],
        }

    def nearness(self, index: int) -> tuple[bool, bool, int]:
        """Return a key that sorts units: on the page, in another result, in none."""
        place = self.places[index]
        return place is None, place not in self.shown, index if place is None else place

    def why(self, index: int) -> Trace:
        """Explain where the result of a unit ranks, or why it is in no result."""
        place, fate = self.places[index], self.fates[index]
        if place is None:
            said = f"It is in no result: {fate}."
        elif place in self.shown:
            said = f"It is {fate}; if the answer does not show it, it did not fit."
        else:
            last = self.scores[self.shown.start : self.shown.stop][-1:]
            behind = f"; the last result here has {to_score(last[0])}" if last else ""
            said = f"It ranks {place + 1} with a score of {to_score(self.scores[place])}, {fate}{behind}."
        return {"found": place in self.shown, "why": said}


class Explaining:
    """Explains the ranking of units: chunks, or memories that are not chunked."""

    def __init__(self, storage: Storage, retriever: Retriever) -> None:
        self._storage = storage
        self._retriever = retriever

    def kind_of(self, memory_id: str | int, name: str = "memory_id") -> str | None:
        """Return the kind of a memory; None if there is no such memory. Raises ValidationError."""
        number = parse_id(name, memory_id)
        with self._storage.read() as reader:
            origin = reader.memories.origins([number]).get(number)
            return None if origin is None else origin.memory_type

    def named(self, memory_ids: Sequence[int]) -> list[Moment]:
        """Return memories with the beginnings of their texts."""
        with self._storage.read() as reader:
            return reader.sessions.moments(memory_ids, BEGINNING)

    def require_comparable(self) -> None:
        """Raise EmbeddingUnavailableError if no query can be compared by meaning."""
        with self._storage.read() as reader:
            self._retriever.require_comparable(reader)

    def explain(
        self, query: str | None, scope: Scope, request: ExplainRequest, mode: SearchMode | None = None
    ) -> Trace:
        """Return the query's words, the filters, the candidates, and why a memory was not found.

        A candidate has its rank, id and memory_id, score, cosine (None: not compared), share of the words (`words`),
        late score (`late`; None: not compared), the words it has, those found only in its title or headings, the words
        it lacks, and its fate: where its result is. Without a query, nothing is compared. Raises ValidationError,
        EmbeddingUnavailableError.
        """
        number = None if request.memory_id is None else parse_id("memory_id", request.memory_id)
        if query is None:
            trace: Trace = {"compared": "nothing: they are listed by time", "filters": scope.as_filters()}
            with self._storage.read() as reader:
                return trace if number is None else trace | {"memory": why_listed(reader, scope, number)}
        question = self._retriever.prepare(query, mode, scope)
        with self._retriever.answering(question, scope) as retrieval:
            ranking = ranking_of(retrieval, request, folds=self._retriever.folds(scope, request.page))
            last = min(request.page.end + SHOWN, len(ranking.hits))
            trace = {
                "compared": compared(ranking.question, ranking.hits),
                "query_words": list(ranking.question.terms or ()),
                "filters": scope.as_filters(),
                "candidates_compared": len(ranking.hits),
                "candidates": candidates(retrieval.reader, scope, ranking, range(last)),
            }
            return trace if number is None else trace | {"memory": why(retrieval.reader, scope, ranking, number)}


def ranking_of(retrieval: Retrieval, request: ExplainRequest, *, folds: bool) -> RankedUnits:
    """Rank all units of a scope, and find their places among the results. Raises ValidationError."""
    found, kind, most = retrieval.everything(), retrieval.scope.kind, chunks_for(request.page)
    hits = judged(found, retrieval.question)
    grain = GRAINS["document" if kind is not None and not TRAITS[kind].chunked else request.grain]
    units = [
        unit
        for unit in (best_of_each_memory(hits) if grain.memories else hits)
        if retrieval.is_similar_enough(unit.similarity)
    ]
    results: Sequence[Hit | MatchedSection] = results_for(
        grain, retrieval, Judgement(units, origins=found.origins), request.page, folds=folds
    )
    on_page, _ = arranged(results, request.page)
    place_of, copied = places_among(results)
    keys = [hit.memory_id if grain.memories else hit.id for hit in hits]
    shown = on_page if request.shown is None else request.shown

    def fate(hit: Hit, key: int) -> str:
        place = place_of.get(key)
        if place is not None:
            where = "an earlier" if place < shown.start else "a later"
            said = "on this page" if place in shown else f"on {where} page"
            return f"under memory {copied[key]}, which says the same, {said}" if key in copied else said
        if retrieval.is_similar_enough(hit.similarity):
            return f"sections are made of the best {most} chunks"
        return f"cut: similarity below VECTOR_MEMORY_SIMILARITY_THRESHOLD ({retrieval.threshold:g})"

    return RankedUnits(
        replace(retrieval.question, weight=found.weight),
        hits,
        list(map(place_of.get, keys)),
        list(map(fate, hits, keys)),
        [result.score for result in results],
        shown,
    )


def places_among(results: Sequence[Hit | MatchedSection]) -> tuple[dict[int, int], dict[int, int]]:
    """Map units to the places of their results, and copies to the memories they are merged into."""
    place_of: dict[int, int] = {}
    copied: dict[int, int] = {}
    for place, result in enumerate(results):
        copies: Sequence[Hit | MatchedSection] = result.under
        for one in (result, *copies):
            for hit in one.hits if isinstance(one, MatchedSection) else (one,):
                place_of[hit.id] = place
                if one is not result:
                    copied[hit.id] = result.memory_id
    return place_of, copied


def compared(question: Question, hits: Sequence[Hit] = ()) -> str:
    """Describe what was compared, and why the rest was not. `hits`: best first."""
    late = any(hit.late is not None for hit in hits)
    said = formula(question, late=late)
    if late or question.states is None or not hits or any(hit.similarity is None for hit in hits[:LATE_UNITS]):
        return said
    return f"{said}; {NO_STATES}"


def formula(question: Question, *, late: bool) -> str:
    """Describe how scores were computed. `late`: the best units were compared token by token."""
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


def candidates(reader: Reader, scope: Scope, ranking: RankedUnits, indices: Sequence[int]) -> list[Trace]:
    """Return the measurements of these candidates."""
    hits = [ranking.hits[index] for index in indices]
    ids = [hit.id for hit in hits]
    if scope.kind is not None and TRAITS[scope.kind].chunked:
        origins = reader.memories.origins([hit.memory_id for hit in hits])
        units = {
            number: ("\n".join(names_above(origins[part.memory_id].title, part.chunk.headings)), part.chunk.text)
            for number, part in reader.chunks.get_all(ids).items()
        }
    else:
        units = {one.id: (one.title or "", one.content) for one in reader.memories.get_all(ids).values()}
    return [ranking.candidate(index, *units[ranking.hits[index].id]) for index in indices]


def why(reader: Reader, scope: Scope, ranking: RankedUnits, memory_id: int) -> Trace:
    """Explain where a memory ranks, or why it does not."""
    units = [index for index, hit in enumerate(ranking.hits) if hit.memory_id == memory_id]
    if units:
        index = min(units, key=ranking.nearness)
        [best] = candidates(reader, scope, ranking, [index])
        return {"id": memory_id, **ranking.why(index), "best": best}
    lacks = "It has no vector yet: a server computes vectors in the background, or `vector-memory backfill` at once."
    said = exclusion(reader, scope, memory_id) or not_compared(ranking, lacks)
    return {"id": memory_id, "found": False, "why": said}


def why_listed(reader: Reader, scope: Scope, memory_id: int) -> Trace:
    """Explain why a memory may be missing from a list of the newest."""
    said = exclusion(reader, scope, memory_id)
    return {"id": memory_id, "why": said or "It passes the filters; it is on the page of its iteration and time."}


def not_compared(ranking: RankedUnits, lacks: str) -> str:
    """Explain why no unit of a memory or file is in the ranking. `lacks`: why it has no cosine."""
    if len(ranking.hits) >= MAX_DEPTH:
        return f"At least {MAX_DEPTH:,} others come before it."
    if ranking.question.vector is None:
        return "It has none of the query's words, and meaning was not compared."
    return lacks if ranking.question.terms is None else f"The query's words do not find it. {lacks}"


def exclusion(reader: Reader, scope: Scope, memory_id: int) -> str:
    """Explain which filters exclude a memory, or that it does not exist; empty if it is in the scope."""
    memory = reader.memories.get_all([memory_id]).get(memory_id)
    if memory is None:
        return "There is no such memory: it was deleted or never stored here."
    newer = reader.memories.origins([link.newer_id for link in reader.lifecycle.superseding([memory_id])])
    if newer and scope.as_of is None:
        return f'It is superseded by {", ".join(map(str, newer))}: send as_of="{ANY}" to find it.'
    passed = {
        "as_of": scope.as_of == ANY
        or memory.created_at <= str(scope.as_of) < min((one.created_at for one in newer.values()), default="9999"),
        "category": scope.category == memory.metadata.get("category"),
        "project": scope.project == memory.metadata.get("project"),
        "containing": ascii_lower(scope.containing or "") in ascii_lower(f"{memory.title or ''}\0{memory.content}"),
        "state": memory.pinned if scope.state is State.PINNED else bool(newer),
        "tags": not {*scope.tags}.isdisjoint(memory.tags),
        "own_agent_id": scope.own_agent_id != memory.agent_id,
        "created_after": (scope.created_after or "") <= memory.created_at,
        "created_before": memory.created_at <= (scope.created_before or ""),
    }
    filters = scope.as_filters().items()
    failed = [name for name, wanted in filters if not passed.get(name, getattr(memory, name, None) == wanted)]
    return f"It is outside the filters: {', '.join(failed)}." if failed else ""


def fitting(trace: Trace, room: int) -> Trace | None:
    """Return a trace in at most `room` bytes, dropping its last candidates if necessary; None: it does not fit."""
    candidates = trace.get("candidates", [])
    rest = trace | ({"candidates": []} if candidates else {})
    left = room - value_size({"trace": rest})
    if left < 0:
        return None
    return trace | {"candidates": fitting_values(candidates, left)} if candidates else trace
