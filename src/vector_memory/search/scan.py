"""Finds the best units of a scope: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vector_memory.domain import TRAITS, Scope
from vector_memory.search.comparison import (
    MAX_EXACT_UNITS,
    MAX_EXACT_UNITS_OF_SESSION,
    NOTHING,
    Comparison,
    ExactComparison,
    Goal,
    LikelyComparison,
    Nearby,
    ScopeQuery,
    WordsWorth,
    of_best_memories,
)
from vector_memory.search.fusion import (
    FIRST_BY_WORDS,
    Hit,
    SearchHits,
    best_of_each_memory,
    clipped,
    fused_scores,
    pending_weight,
    sort_hits,
    sources_of,
)
from vector_memory.search.question import Question
from vector_memory.search.words import respell, word_scores
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps
from vector_memory.storage.postings import BUCKETS, buckets_of
from vector_memory.storage.queries.candidates import Candidates, ComparedPassages, IndexedScope, Likely
from vector_memory.storage.scoring import Numbers, Vectors, are_in, best, cosines, rounded
from vector_memory.storage.spelling import MOST_BLOCKS, Spelling
from vector_memory.storage.unit_text import searchable_text
from vector_memory.storage.units import OUTSIDE

PROBED = 16_384
"""Passages among which those near a question are counted: the newest of the whole memory."""

COUNTED = 20
"""The highest count."""

MOST_COMPARED = 128
"""The vectors of so many passages are read to count those that are near."""


class Method(NamedTuple):
    """How large scopes are compared by meaning. `batch`: passages fetched first. `iterative`: fetch in growing batches.

    Otherwise all passages are compared. `newest`: the scope has only about so many of the newest passages.
    """

    batch: int = 100
    iterative: bool = True
    newest: int | None = None


USUAL = Method()


class Found(NamedTuple):
    """What was read of a scope at once: its units, with the postings of the terms of a question.

    `compared`: its passages, if that was fast.
    """

    indexed: IndexedScope
    compared: ComparedPassages | None = None


def reads(reader: Reader, scope: Scope, question: Question) -> list[Steps[Any]]:
    """Return the reads that fill a `Found` of a visible scope; none, if it is not of one kind."""
    if scope.kind is None:
        return []
    source, buckets = reader.candidates, buckets_of(question.terms or ())
    ahead = [] if question.vector is None else [source.compared_ahead.steps(scope, question.vector)]
    return [source.indexed.steps(scope, buckets), *ahead]


class Scan:
    """Finds the best units of a scope, or the memories that have the best units.

    `depth`: this many nearest units have "vector" among their `sources`, even if they contain the words. `besides`:
    memories that are left out.
    """

    def __init__(
        self,
        source: Candidates,
        scope: Scope,
        question: Question,
        found: Found,
        *,
        method: Method = USUAL,
        depth: int = 0,
        besides: Sequence[int] = (),
    ) -> None:
        self._source, self._scope, self._question, self._method = source, scope, question, method
        self._depth, self._ahead, self._besides = depth, found.compared, besides
        units, postings = found.indexed
        self._units = units.without(besides) if besides else units
        self._words = None
        if question.terms is not None:
            self._words = word_scores(self._units, postings, question.terms)
        self._word_entries = np.empty(0, np.int64) if self._words is None else self._words.entries
        self._comparison: Comparison | None = None

    def find(self, count: int, *, memories: bool = False) -> SearchHits:
        """Return the `count` best units or `memories`, with the weight of the cosines in their scores."""
        covered, query = None if self._words is None else self._words.covered, self._question.vector
        if query is None:
            weight = self._question.weight
            hits = self._hits(NOTHING, self._word_entries, weight, count, by_meaning=False, memories=memories)
            return SearchHits(hits[:count], None, covered=covered, weight=weight)
        if self._comparison is None:
            self._comparison = self._compared(query)
        lacking = self._comparison.without_vectors(self._word_entries)
        weight = self._weight_while(lacking)
        nearby = self._comparison.find(Goal(count, 0 if self._words is None else self._depth, memories), weight)
        nearest = clipped(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, lacking, weight, count, by_meaning=True, memories=memories)
        return SearchHits(hits[:count], nearest, nearby.partial, covered, weight)

    def respelt(self, reader: Reader) -> dict[str, Spelling]:
        """Return what words of the question that the scope does not have may be read as, by their terms."""
        plain, words = self._question.plain, self._words
        missing = {} if words is None else {term: plain[term] for term in words.missing if term in plain}
        if not missing or not 0 < len(self._units.block_ids) <= MOST_BLOCKS:
            return {}
        rows = self._source.indexed(self._scope, list(range(BUCKETS))).postings
        is_chunked = self._scope.kind is not None and TRAITS[self._scope.kind].chunked

        def texts_of(unit_ids: list[int]) -> Iterator[str]:
            chunks = reader.chunks(unit_ids) if is_chunked else {}
            memories = reader.memories(sorted({one.memory_id for one in chunks.values()}) if is_chunked else unit_ids)
            for one in chunks.values():
                yield searchable_text(memories[one.memory_id].title, one.chunk.headings, one.chunk.text)
            for memory in () if is_chunked else memories.values():
                yield searchable_text(memory.title, (), memory.content)

        return respell(self._units, rows, missing, self._question.terms or (), texts_of)

    def likeliest(self) -> Steps[Likely | None]:
        """Return the likeliest of the newest passages."""
        if self._question.vector is None or not self._units.inside.any():
            return None
        worth = WordsWorth(self._units, self._words, self._question.weight, self._besides)
        likeliest = self._source.likeliest.steps
        return (yield from likeliest(self._scope, self._question.vector, worth, MOST_COMPARED, PROBED))

    def count_strong(self, found: Likely | None, threshold: float | None) -> int:
        """Return how many units match strongly: by words, or by one of the likeliest passages."""
        units, question = self._units, self._question
        shares, by_words = np.zeros(len(units.ids)), np.empty(0, np.int64)
        if self._words is not None:
            shares = self._words.shares * (self._words.covered / (self._words.shares.max(initial=0.0) or 1.0))
            by_words = self._words.entries[question.calibration.are_strong(0.0, shares[self._words.entries])]
        if question.vector is None or found is None:
            return len(by_words)
        entries, similarities = units.entries_of(found.unit_ids), cosines(found.vectors, question.vector)
        there = (
            (entries != OUTSIDE) & units.inside[entries] & (similarities >= (-1.0 if threshold is None else threshold))
        )
        entries, similarities = entries[there], similarities[there]
        return len(np.union1d(entries[question.calibration.are_strong(similarities, shares[entries])], by_words))

    def _weight_while(self, lacking: Numbers) -> float:
        """Return the weight of cosines while some of the units that contain words have no vector."""
        weight = self._question.weight
        if self._words is None or not len(lacking):
            return weight
        shares, ids = rounded(self._words.shares[self._word_entries]), self._units.ids[self._word_entries]
        first = self._word_entries[best(shares, ids, FIRST_BY_WORDS)]
        return pending_weight(weight, int(np.count_nonzero(~are_in(lacking, first))), len(first))

    def _compared(self, query: Vectors) -> Comparison:
        """Return what compares the query with the passages of the scope."""
        asked = ScopeQuery(self._source, self._scope, self._units, self._words, query)
        most = MAX_EXACT_UNITS if self._scope.session_id is None else MAX_EXACT_UNITS_OF_SESSION
        if self._method.iterative and self._units.count > most:
            return LikelyComparison(asked, self._method.batch, self._method.newest)
        return ExactComparison(asked, self._ahead)

    def _hits(
        self, nearby: Nearby, others: Numbers, weight: float, count: int, *, by_meaning: bool, memories: bool
    ) -> list[Hit]:
        """Return the best units in order, among those that are near and the `others`, which have no cosine."""
        keyword = self._word_entries
        others = others[~are_in(nearby.entries, others)]
        entries = np.concatenate([nearby.entries, others])
        similarities = np.pad(nearby.cosines, (0, len(others)), constant_values=np.nan)
        ids, owners = self._units.ids[entries], self._units.owners_of(entries)
        words = None if self._words is None else rounded(self._words.shares[entries])
        measured = similarities if words is None else words
        scores = fused_scores(similarities, words, weight) if by_meaning and words is not None else measured
        chosen = of_best_memories(scores, owners, count) if memories else best(scores, ids, count)
        known = frozenset(nearby.entries.tolist())
        nearest = frozenset(nearby.entries[best(nearby.cosines, ids[: len(known)], self._depth)].tolist())
        with_words = frozenset(entries[chosen][are_in(keyword, entries[chosen])].tolist())
        hits = []
        columns = (entries, ids, owners, scores, similarities, measured)
        for entry, unit, memory_id, score, similarity, share in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            # A unit without any of the words is here because it is near.
            near = {entry} - with_words | {entry} & nearest
            sources = sources_of(entry, near, with_words)
            compared = clipped(similarity) if entry in known else None
            hits.append(Hit(unit, memory_id, score, compared, sources, None if words is None else share))
        return best_of_each_memory(sort_hits(hits)) if memories else sort_hits(hits)
