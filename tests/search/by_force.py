"""What searches must find, by comparing everything that is stored: cosines, and BM25 as in the textbook."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inside import retriever_of, storage_of
from lattice import LatticeEmbedder
from vector_memory.domain import Scope, SearchMode
from vector_memory.search.question import is_name
from vector_memory.search.rank import FIRST_BY_WORDS, Hit
from vector_memory.storage.base import WholeMemory
from vector_memory.storage.records import Memory
from vector_memory.storage.scoring import K1, VECTOR_WEIGHT, VECTOR_WEIGHT_OF_NAMES, B
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.terms import query_terms, searchable_texts, terms


class Unit(NamedTuple):
    """A chunk, or a memory that is not chunked, with its terms and the texts of its passages, if they have vectors."""

    id: int
    memory: Memory
    terms: list[str]
    passages: list[str]


def units_in(whole: WholeMemory) -> Iterator[Unit]:
    """Yield the units of a memory."""
    memory, chunks = whole.memory, [part.chunk for part in whole.chunks]
    texts = searchable_texts(memory.title, memory.content, chunks, chunked=memory.chunked)
    ids = [part.id for part in whole.chunks] if memory.chunked else [memory.id]
    for place, (number, text) in enumerate(zip(ids, texts, strict=True)):
        own = [passage for passage in whole.passages or () if (passage.chunk or 0) == place]
        yield Unit(number, memory, terms(text), [memory.content[passage.start : passage.end] for passage in own])


def is_in(memory: Memory, scope: Scope) -> bool:
    """Say in plain Python whether a memory is in a scope."""
    exact = ("agent_id", "session_id", "session_iter", "task_code")
    return (
        memory.memory_type == scope.kind
        and all(getattr(scope, name) in (None, getattr(memory, name)) for name in exact)
        and memory.agent_id != scope.own_agent_id
        and memory.id > (scope.after_id or 0)
        and (scope.sessions is None or memory.session_id in scope.sessions)
        and scope.category in (None, memory.metadata.get("category"))
        and (not scope.tags or not {*scope.tags}.isdisjoint(memory.tags))
        and (scope.created_after or "") <= memory.created_at <= (scope.created_before or "9")
    )


class ByForce:
    """All units of a memory. Results are pairs of an id and a score, the best first, and then by id."""

    def __init__(self, store: SessionMemoryStore) -> None:
        with storage_of(store).read() as reader:
            self.units = [unit for whole in reader.upkeep.portions.memories(0, 10**6) for unit in units_in(whole)]

    def find(self, mode: str, query: str, scope: Scope) -> list[tuple[int, float]]:
        """Return the units of a scope that have a vector, one of the words, or either."""
        if mode == "hybrid":
            return self.by_both(query, scope)
        return self.by_meaning(query, scope) if mode == "vector" else self.by_words(query, scope)

    def by_meaning(self, query: str, scope: Scope, *, memories: bool = False) -> list[tuple[int, float]]:
        """Return the cosines of units, or of whole memories."""
        wanted = LatticeEmbedder().embed([query])[0]
        found: dict[int, float] = {}
        for unit in self.units:
            if unit.passages and is_in(unit.memory, scope):
                cosine = float(np.max(LatticeEmbedder().embed(unit.passages) @ wanted))
                number = unit.memory.id if memories else unit.id
                found[number] = max(found.get(number, -1.0), cosine)
        return ranked(found)

    def by_words(self, query: str, scope: Scope) -> list[tuple[int, float]]:
        """Return BM25 scores over the geometric mean of the highest one and the highest possible one."""
        inside = {unit.id: Counter(unit.terms) for unit in self.units if is_in(unit.memory, scope)}
        mean = sum(map(Counter.total, inside.values())) / max(1, len(inside)) or 1
        scores, possible = dict.fromkeys(inside, 0.0), 0.0
        for term in query_terms(query):
            having = sum(term in counts for counts in inside.values())
            idf = math.log(1 + (len(inside) - having + 0.5) / (having + 0.5))
            possible += idf * (K1 + 1)
            for number, counts in inside.items():
                norm = K1 * (1 - B + B * counts.total() / mean)
                scores[number] += idf * counts[term] * (K1 + 1) / (counts[term] + norm)
        divisor = math.sqrt(possible * max(scores.values(), default=0)) or 1
        return ranked({number: round(score / divisor, 6) for number, score in scores.items() if score})

    def by_both(self, query: str, scope: Scope) -> list[tuple[int, float]]:
        """Return fused scores; that of a unit without a vector is its share of the words."""
        cosines, words = dict(self.by_meaning(query, scope)), self.by_words(query, scope)
        first = [number for number, _ in words[:FIRST_BY_WORDS]]
        weight = VECTOR_WEIGHT_OF_NAMES if is_name(query) else VECTOR_WEIGHT
        weight *= ((1 + sum(number in cosines for number in first)) / (1 + len(first))) ** 2
        shares = dict.fromkeys(cosines, 0.0) | dict(words)
        return ranked(
            {
                number: float(np.round(weight * cosines.get(number, share) + (1 - weight) * share, 9))
                for number, share in shares.items()
            }
        )


def ranked(scores: dict[int, float]) -> list[tuple[int, float]]:
    """Return ids and scores in the order of results."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def hits_of(store: SessionMemoryStore, query: str, scope: Scope, mode: str = "hybrid", limit: int = 100) -> list[Hit]:
    """Return the units that a search finds, before their scores are cut for answers."""
    retriever = retriever_of(store)
    with retriever.answering(retriever.prepare(query, SearchMode(mode), scope), scope) as retrieval:
        return retrieval.find(limit).hits


def found_by(
    store: SessionMemoryStore, query: str, scope: Scope, mode: str = "hybrid", limit: int = 100
) -> list[tuple[int, float]]:
    """Return their ids and scores."""
    return [(hit.id, hit.score) for hit in hits_of(store, query, scope, mode, limit)]
