"""Explains a search: how each candidate was measured, and why one was not returned."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.validation import parse_id
from vector_memory.results.rounding import to_score, to_thousandth
from vector_memory.results.shortening import fitting_values, value_size
from vector_memory.search.fusion import Hit
from vector_memory.search.question import Question
from vector_memory.search.result_positions import Grain, Ranking, ranking_of
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

NO_SUCH_MEMORY = "There is no such memory: it was deleted or never stored here."

Trace = dict[str, Any]


class Asked(NamedTuple):
    """What a trace explains: a page of results of one size, and the memory that somebody misses there.

    `shown`: the places of the results that the page shows, where it shows those of several searches; None: all.
    """

    page: Page
    grain: Grain = "chunk"
    memory_id: str | int | None = None
    shown: range | None = None


class UnitText(NamedTuple):
    """The text of a unit, and `above` it the title of its memory and the headings that enclose it."""

    above: str
    text: str

    @classmethod
    def of(cls, title: str | None, headings: Sequence[str], text: str) -> "UnitText":
        """Return the text of a unit that may have a title and headings."""
        return cls("\n".join(names_above(title, headings)), text)


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
            ranking = ranking_of(retrieval, scope, asked.page, asked.grain, asked.shown)
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
        {"rank": index + 1, **measures(ranking.question, hit, units[hit.id]), "fate": ranking.fate(index)}
        for index, hit in zip(indices, hits, strict=True)
    ]


def measures(question: Question, hit: Hit, unit: UnitText) -> Trace:
    """Return the measures of a candidate."""
    above, within = set(terms(unit.above)), set(terms(unit.text))
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


def units_of(retrieval: Retrieval, scope: Scope, hits: Sequence[Hit]) -> dict[int, UnitText]:
    """Return the texts of units."""
    ids, reader = [hit.id for hit in hits], retrieval.reader
    if scope.kind is not None and TRAITS[scope.kind].chunked:
        origins = reader.origins([hit.memory_id for hit in hits])
        return {
            number: UnitText.of(origins[stored.memory_id].title, stored.chunk.headings, stored.chunk.text)
            for number, stored in reader.chunks(ids).items()
        }
    return {number: UnitText.of(memory.title, (), memory.content) for number, memory in reader.memories(ids).items()}


def why(retrieval: Retrieval, scope: Scope, ranking: Ranking, memory_id: int) -> Trace:
    """Say where a memory ranks, or why it does not rank."""
    memory = retrieval.reader.memories([memory_id]).get(memory_id)
    if memory is None or (names := failed_filters(scope, memory)):
        said = NO_SUCH_MEMORY if memory is None else outside(names)
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
        end = ranking.last_score()
        said += "." if end is None else f"; the last result of this page has {to_score(end)}."
    return {"id": memory_id, "found": place in ranking.shown, "why": said, "best": best}


def why_listed(reader: Reader, scope: Scope, memory_id: int) -> str:
    """Say why a memory may not be on a page of the newest."""
    memory = reader.memories([memory_id]).get(memory_id)
    if memory is None:
        return NO_SUCH_MEMORY
    if names := failed_filters(scope, memory):
        return outside(names)
    return f"It passes the filters; it is on the page of its iteration ({memory.session_iter}) and time."


def outside(names: Sequence[str]) -> str:
    """Say which filters exclude a memory."""
    return f"It is outside the filters: {', '.join(names)}."


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


def fitting(trace: Trace, room: int) -> Trace | None:
    """Return a trace in at most `room` bytes, without its last candidates if need be; None: it does not fit."""
    candidates = trace.get("candidates", [])
    rest = trace | ({"candidates": []} if candidates else {})
    left = room - value_size({"trace": rest})
    if left < 0:
        return None
    return trace | {"candidates": fitting_values(candidates, left)} if candidates else trace
