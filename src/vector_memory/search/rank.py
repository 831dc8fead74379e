"""Ranks the units of a scope: by the cosine of their nearest passage, by BM25, or by both.

Measurements are arrays with one number for each entry of the blocks that have units of the scope (see
`storage.postings`). Only the best units become hits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, isnan
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.answers.models import Source
from vector_memory.domain import TRAITS, MatchLevel, Scope, best_of
from vector_memory.embedding.token_states import Compared
from vector_memory.errors import DatabaseError
from vector_memory.search.question import Question
from vector_memory.storage import postings
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps
from vector_memory.storage.queries.candidates import Candidates, ComparedPassages, IndexedScope, Likely
from vector_memory.storage.records import Link, Origin
from vector_memory.storage.scoring import (
    LATE_WEIGHT,
    VECTOR_WEIGHT,
    Numbers,
    Vectors,
    are_in,
    best,
    cosines,
    divisor_of,
    highest_score,
    rounded,
    scores_for,
)
from vector_memory.storage.spelling import MOST_BLOCKS, Occurring, Spelling, spellings
from vector_memory.texts.terms import named_by, searchable_text

FUSED_DECIMALS = 9
"""The fused score of two six-decimal scores has eight decimals; the rest is rounding error."""

NO_ENTRIES: Numbers = np.empty(0, np.int64)

SOURCES: dict[tuple[bool, bool], tuple[Source, ...]] = {
    (True, False): ("vector",),
    (False, True): ("keyword",),
    (True, True): ("vector", "keyword"),
}
"""The lists that contain a unit, by whether it is near and whether it has words."""

FIRST_BY_WORDS = 20
"""Number of best units by words that show how many vectors are missing (see `pending_weight`)."""


class Hit(NamedTuple):
    """A unit in the final order. `similarity`: its best passage's cosine, clipped to 0-1; None: not compared.

    `words`: its share of the words (see `divisor_of`); None: not compared. `late`: its late score (see `late_hits`), if
    part of the score. `match`: None: not judged. `covered`: the share of the question's words that it has, weighted by
    rarity, in a search of several scopes, whose `words` are not comparable. `under`: the copies of other memories that
    were merged into it.
    """

    id: int
    memory_id: int
    score: float
    similarity: float | None
    sources: tuple[Source, ...]
    words: float | None = None
    late: float | None = None
    match: MatchLevel | None = None
    covered: float = 0.0
    under: tuple["Hit", ...] = ()

    @property
    def copies(self) -> list[int]:
        """The ids of the memories it repeats."""
        return sorted({hit.memory_id for hit in self.under})

    def over(self, copies: Iterable["Hit"]) -> "Hit":
        """Merge copies into this hit; keep the best score."""
        every = [self, *copies]
        score, match = max(hit.score for hit in every), best_of([hit.match for hit in every])
        return self._replace(score=score, match=match, under=tuple(every[1:]))

    def leading(self) -> "Hit":
        """Return the hit for its place before an older one on its subject: not weak."""
        return self._replace(match="related") if self.match == "weak" else self

    def cosine(self, weight: float) -> float | None:
        """Return the cosine, from -1 to 1, that has this weight in the fused score; None: not compared."""
        fused = self.score if self.late is None else (self.score - LATE_WEIGHT * self.late) / (1 - LATE_WEIGHT)
        if self.similarity is None or self.words is None:
            return None if self.similarity is None else fused
        return (fused - (1 - weight) * self.words) / weight


class SearchHits(NamedTuple):
    """The results of a search, best first. `nearest`: the cosine of the scope's best passage; None: not compared.

    `partial`: not every unit could be compared, so other units may be as good. `covered`: as in `WordScores`; None: no
    words compared. `weight`: of the cosines in the fused scores. `compared`: hits compared token by token, by id.
    `links`: between their memories. `origins`: of memories, as far as read. `texts`: of these hits, with titles and
    headings, by id, if words of the question decide.
    """

    hits: list[Hit]
    nearest: float | None
    partial: bool = False
    covered: float | None = None
    weight: float = VECTOR_WEIGHT
    compared: Mapping[int, Compared] = MappingProxyType({})
    links: Sequence[Link] = ()
    origins: Mapping[int, Origin] = MappingProxyType({})
    texts: Mapping[int, str] = MappingProxyType({})

    @property
    def coverage(self) -> float:
        """Factor from a hit's share of the words to the words it covers, weighted by rarity."""
        most = max((hit.words or 0.0 for hit in self.hits), default=0.0)
        return self.covered / most if self.covered and most else 0.0


def late_hits(hits: Iterable[Hit], late: Mapping[int, float], lowest: float) -> list[Hit]:
    """Blend late scores into the scores of hits; best first.

    `late`: by unit. Other units get the `lowest` late score, so that their scores are comparable and they stay behind.
    """
    scores = ((hit, late.get(hit.id, lowest)) for hit in hits)
    return sort_hits(
        hit._replace(late=score, score=round((1 - LATE_WEIGHT) * hit.score + LATE_WEIGHT * score, FUSED_DECIMALS))
        for hit, score in scores
    )


def shown_cosine(score: float) -> float | None:
    """Clip a cosine to 0-1 for results; None for NaN: not compared."""
    return None if isnan(score) else min(1.0, max(0.0, score))


def pending_weight(weight: float, embedded: int, count: int) -> float:
    """Return the weight of cosines if only `embedded` of the `count` best units by words have vectors.

    Only words are fair between units with and without vectors: the fewer have vectors, the less cosines count, and a
    search never ranks worse than by words alone. docs/lab/retrieval.md has the measurements.
    """
    return weight * ((embedded + 1) / (count + 1)) ** 2


def fused_scores(
    similarities: NDArray[np.float64], words: NDArray[np.float64], weight: float = VECTOR_WEIGHT
) -> NDArray[np.float64]:
    """Combine cosines and shares of the words (see `divisor_of`); shape as given.

    `weight`: of the cosines. A better match in either never lowers a score. The score of a unit without a vector, whose
    similarity is NaN, is its share of the words.
    """
    shares = rounded(words)
    scores = weight * np.where(np.isnan(similarities), shares, rounded(similarities)) + (1 - weight) * shares
    return np.round(scores, FUSED_DECIMALS)


def sort_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Sort hits by score, highest first, then by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def merged_hits(found: Sequence[SearchHits]) -> SearchHits:
    """Merge the hits of several searches with comparable scores and no common units."""
    return SearchHits(
        sort_hits(hit._replace(covered=part.coverage * (hit.words or 0.0)) for part in found for hit in part.hits),
        max((part.nearest for part in found if part.nearest is not None), default=None),
        any(part.partial for part in found),
        compared={unit: one for part in found for unit, one in part.compared.items()},
        links=[link for part in found for link in part.links],
        origins={number: one for part in found for number, one in part.origins.items()},
        texts={unit: one for part in found for unit, one in part.texts.items()},
    )


def best_of_each_memory(hits: Iterable[Hit]) -> list[Hit]:
    """Return one hit per memory, with its best score and similarity; `id` is the memory's."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.setdefault(hit.memory_id, hit._replace(id=hit.memory_id))
        similarity = max((value for value in (known.similarity, hit.similarity) if value is not None), default=None)
        best[hit.memory_id] = known._replace(similarity=similarity)
    return sort_hits(best.values())


# BM25, with the statistics of the scope.


@dataclass(frozen=True, slots=True)
class WordScores:
    """The shares of a query's words that units have (see `divisor_of`).

    `shares`: by entry, 0 outside the scope. `entries`: those with any of the terms, ascending. `covered`: the share of
    the words, weighted by rarity, that the best unit has. `missing`: the terms that no unit has.
    """

    shares: NDArray[np.float64]
    entries: Numbers
    covered: float
    missing: Sequence[str]


def word_scores(units: postings.Units, rows: postings.PostingRows, terms: Sequence[str]) -> WordScores:
    """Score the units of a scope. `rows`: the postings of the terms. Raises DamagedError."""
    each_of = postings.occurrences(terms, rows, len(units.block_ids))
    found = {term: inside(units, each) for term, each in zip(terms, each_of, strict=True)}
    count = units.count
    mean_length = int((units.lengths * units.inside).sum()) / (count or 1)
    scores, words = np.zeros(len(units.ids)), list[tuple[float, Numbers]]()
    for entries, counts in found.values():
        most = highest_score(count, len(entries))
        words.append((most, entries))
        scores[entries] += scores_for(most, counts, units.lengths[entries] / (mean_length or 1.0))
    covered = covered_by_best(scores, list(found), words)
    scored = np.flatnonzero(scores != 0)
    scores[scored] /= divisor_of(scores[scored], sum(most for most, _ in words))
    return WordScores(scores, scored, covered, [term for term, (entries, _) in found.items() if not len(entries)])


def inside(units: postings.Units, found: postings.Occurrences) -> tuple[Numbers, NDArray[np.uint16]]:
    """Return the entries of the scope that have a term, ascending, and its counts."""
    entries = units.entries_at(found)
    there = units.inside[entries]
    return entries[there], found.counts[there]


def covered_by_best(
    scores: NDArray[np.float64], terms: Sequence[str], words: Sequence[tuple[float, NDArray[np.integer]]]
) -> float:
    """Return the share of a query's words that the unit with the highest score has.

    `words`: for each term its highest possible score, and the places in `scores` of the units that have it. Terms for
    the same thing count once, as the most frequent of them.
    """
    place = int(scores.argmax()) if len(scores) else 0
    if not len(scores) or not scores[place]:
        return 0.0
    weights: dict[str, float] = {}
    covered: set[str] = set()
    for term, (highest, places) in zip(terms, words, strict=True):
        name = named_by(term)
        weights[name] = min(highest, weights.get(name, highest))
        if (places == place).any():
            covered.add(name)
    # fsum, because the order of a set differs between processes, and levels depend on the last digit.
    return fsum(weights[name] for name in covered) / (fsum(weights.values()) or 1.0)


# Compares a question with all passages of a scope, or with those likeliest to be near.

MAX_EXACT_UNITS = 1_000
MAX_EXACT_UNITS_OF_SESSION = 5_000
"""Up to this many units, all passages of a scope are compared. A session's are neighbours in a file."""

MIN_COMPARED = 1_000
"""In a larger scope, signatures (`storage.sqlite.vec0`) or pgvector choose this many passages to compare, half as many
in a hybrid search. docs/lab/performance.md has the resulting recall."""

MAX_COMPARED = 32_768
"""Maximum number of passages compared. If a few units have most of the likeliest passages, the search stops here, and
its result is partial."""

GROWTH = 4
PASSAGES_PER_UNIT = 4

PROBED = 16_384
"""Number of newest passages of the whole memory in which a hint counts matches."""

COUNTED = 20
"""The highest count of a hint."""

MOST_COMPARED = 128
"""Number of passages whose vectors are read for a hint."""


class Method(NamedTuple):
    """How large scopes are compared by meaning. `batch`: passages fetched first. `iterative`: fetch in growing batches.

    Otherwise all passages are compared. `newest`: the scope has only about this many of the newest passages.
    """

    batch: int = 100
    iterative: bool = True
    newest: int | None = None


USUAL = Method()


class ScopeData(NamedTuple):
    """The data of a scope: its units, with the postings of a question's terms.

    `compared`: its passages, if they were read ahead.
    """

    indexed: IndexedScope
    compared: ComparedPassages | None = None


class Measured(NamedTuple):
    """The cosine of each entry's nearest passage; NaN: not compared.

    `lacking`: the entries that have words but no vector yet. `partial`: the comparison stopped at MAX_COMPARED before
    it had found enough units.
    """

    cosines: NDArray[np.float64]
    lacking: Numbers
    partial: bool = False


def reads(reader: Reader, scope: Scope, question: Question) -> list[Steps[Any]]:
    """Return the reads that fill a `ScopeData`; none if the scope is not of one kind."""
    if scope.kind is None:
        return []
    source, buckets = reader.vectors.candidates, postings.buckets_of(question.terms or ())
    ahead = [] if question.vector is None else [source.compared_ahead.steps(scope, question.vector)]
    return [source.indexed.steps(scope, buckets), *ahead]


class Ranking:
    """Ranks the units of a scope for a question. `besides`: memories to leave out."""

    def __init__(
        self,
        source: Candidates,
        scope: Scope,
        question: Question,
        found: ScopeData,
        *,
        method: Method = USUAL,
        besides: Sequence[int] = (),
    ) -> None:
        self._source, self._scope, self._question, self._method = source, scope, question, method
        self._ahead, self._besides = found.compared, besides
        units, rows = found.indexed
        self.units = units = units.without(besides) if besides else units
        self._words = None
        if question.terms is not None:
            self._words = word_scores(units, rows, question.terms)
        self._known: NDArray[np.float64] | None = None
        self._likely: dict[tuple[int, float], tuple[NDArray[np.float64], bool]] = {}

    def best(self, count: int, depth: int = 0, *, memories: bool = False) -> SearchHits:
        """Return the `count` best units or `memories`.

        `depth`: this many nearest units have "vector" among their `sources`, even if they contain the words.
        """
        words, units, weight = self._words, self.units, self._question.weight
        with_words = NO_ENTRIES if words is None else words.entries
        measured = Measured(np.full(len(units.ids), np.nan), with_words)
        if self._question.vector is not None:
            in_addition = 0 if words is None else depth
            weight, measured = self._measured(self._question.vector, count, in_addition, memories=memories)
        compared = np.flatnonzero(~np.isnan(measured.cosines))
        entries = np.concatenate([compared, measured.lacking])
        similarities, ids, owners = measured.cosines[entries], units.ids[entries], units.owners_of(entries)
        shares = similarities if words is None else rounded(words.shares[entries])
        both = words is not None and self._question.vector is not None
        scores = fused_scores(similarities, shares, weight) if both else shares
        if memories:
            chosen, own = best_of_memories(scores, ids, owners, similarities, count)
        else:
            chosen, own = best(scores, ids, count), similarities
        near = similarities[: len(compared)]
        nearest = np.sort(compared[best(near, ids[: len(compared)], depth)]) if both else compared
        has_words = are_in(with_words, entries[chosen])
        # A unit without any of the words was found by its vector.
        is_near = ~has_words | are_in(nearest, entries[chosen])
        columns = (owners if memories else ids, owners, scores, own, shares)
        rows = zip(*(column[chosen].tolist() for column in columns), is_near.tolist(), has_words.tolist(), strict=True)
        hits = [
            Hit(unit, owner, score, shown_cosine(cosine), SOURCES[near, word], None if words is None else share)
            for unit, owner, score, cosine, share, near, word in rows
        ]
        closest = shown_cosine(float(near.max())) if len(near) else None
        return SearchHits(hits, closest, measured.partial, None if words is None else words.covered, weight)

    def _measured(self, query: Vectors, count: int, nearest: int, *, memories: bool) -> tuple[float, Measured]:
        """Return the weight of cosines, and the cosines of all units, or of enough for the `count` best (see `best`).

        `nearest`: number of nearest units to find in addition.
        """
        most = MAX_EXACT_UNITS if self._scope.session_id is None else MAX_EXACT_UNITS_OF_SESSION
        if not self._method.iterative or self.units.count <= most:
            cosines = self._exact(query)
            with_words = NO_ENTRIES if self._words is None else self._words.entries
            lacking = with_words[np.isnan(cosines[with_words])]
            return self._weight_while(lacking), Measured(cosines, lacking)
        weight = self._weight_while(self._lacking)
        limit = max(self._method.batch, MIN_COMPARED // (1 if self._words is None else 2))
        limit = min(MAX_COMPARED, max(limit, 2 * PASSAGES_PER_UNIT * (count + nearest)))
        while True:
            cosines, complete = self._likeliest_cosines(query, limit, weight)
            near = np.flatnonzero(~np.isnan(cosines))
            is_enough = complete or len(np.unique(self.units.owners_of(near) if memories else near)) >= count
            if is_enough or limit >= MAX_COMPARED:
                return weight, Measured(cosines, self._lacking, not is_enough)
            limit = min(MAX_COMPARED, limit * GROWTH)

    def _exact(self, query: Vectors) -> NDArray[np.float64]:
        """Return the cosine of each entry's nearest passage; NaN: no vector, or outside the scope."""
        if self._known is not None:
            return self._known
        found = self._ahead or self._source.compared(self._scope, query)
        entries = self.units.entries_of(found.unit_ids)
        if (entries == postings.OUTSIDE).any():
            raise DatabaseError("A passage belongs to a unit without keywords: run `vector-memory doctor --fix`.")
        self._known = self._highest(entries, found.cosines)
        return self._known

    def _highest(self, entries: Numbers, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the highest cosine of each entry's passages; NaN where there are none, or outside the scope."""
        highest = np.full(len(self.units.ids), -np.inf)
        np.maximum.at(highest, entries, cosines)
        highest[~self.units.inside | np.isneginf(highest)] = np.nan
        return highest

    def _likeliest_cosines(self, query: Vectors, limit: int, weight: float) -> tuple[NDArray[np.float64], bool]:
        """Return the cosines of the likeliest passages by entry, and whether there are no others."""
        if (limit, weight) not in self._likely:
            worth = WordWeights(self.units, self._words, weight)
            found = self._source.likeliest(self._scope, query, worth, limit, self._method.newest)
            entries = self.units.entries_of(found.unit_ids)
            there = entries != postings.OUTSIDE  # pgvector also finds the memories to leave out
            known = self._highest(entries[there], cosines(found.vectors[there], query))
            self._likely[limit, weight] = known, found.complete
        return self._likely[limit, weight]

    @cached_property
    def _lacking(self) -> Numbers:
        lacking, units = self._source.without_vectors(self._scope), self.units
        if not lacking or self._words is None:
            return NO_ENTRIES
        entries = np.flatnonzero(units.belongs_to(lacking))
        without = entries[~np.isin(units.ids[entries], self._source.units_with_vectors(lacking))]
        return self._words.entries[are_in(without, self._words.entries)]

    def _weight_while(self, lacking: Numbers) -> float:
        """Return the weight of cosines while units that have words lack vectors."""
        weight, words = self._question.weight, self._words
        if words is None or not len(lacking):
            return weight
        first = words.entries[best(rounded(words.shares[words.entries]), self.units.ids[words.entries], FIRST_BY_WORDS)]
        return pending_weight(weight, int(np.count_nonzero(~are_in(lacking, first))), len(first))

    def respelt(self, reader: Reader) -> dict[str, Spelling]:
        """Return spelling corrections for words of the question that the scope does not have, by term."""
        plain, words, units = self._question.plain, self._words, self.units
        missing = {} if words is None else {term: plain[term] for term in words.missing if term in plain}
        if not missing or not 0 < len(units.block_ids) <= MOST_BLOCKS:
            return {}
        keys, everywhere = postings.all_occurrences(
            self._source.indexed(self._scope, list(range(postings.BUCKETS))).postings, len(units.block_ids)
        )
        entries = units.entries_at(everywhere)
        there = units.inside[entries]
        occurring = Occurring(keys[there], units.ids[entries[there]])
        is_chunked = self._scope.kind is not None and TRAITS[self._scope.kind].chunked

        def texts_of(unit_ids: list[int]) -> Iterator[str]:
            chunks = reader.chunks.get_all(unit_ids) if is_chunked else {}
            memory_ids = sorted({one.memory_id for one in chunks.values()}) if is_chunked else unit_ids
            memories = reader.memories.get_all(memory_ids)
            for one in chunks.values():
                yield searchable_text(memories[one.memory_id].title, one.chunk.headings, one.chunk.text)
            for memory in () if is_chunked else memories.values():
                yield searchable_text(memory.title, (), memory.content)

        return spellings(missing, self._question.terms or (), occurring, postings.key_of, texts_of)

    def likeliest(self) -> Steps[Likely | None]:
        """Return the likeliest of the newest passages."""
        if self._question.vector is None or not self.units.inside.any():
            return None
        worth = WordWeights(self.units, self._words, self._question.weight, self._besides)
        likeliest = self._source.likeliest.steps
        return (yield from likeliest(self._scope, self._question.vector, worth, MOST_COMPARED, PROBED))

    def count_strong(self, found: Likely | None, threshold: float | None) -> int:
        """Count the units that match strongly: by words, or by one of the likeliest passages."""
        units, question = self.units, self._question
        shares, by_words = np.zeros(len(units.ids)), NO_ENTRIES
        if self._words is not None:
            shares = self._words.shares * (self._words.covered / (self._words.shares.max(initial=0.0) or 1.0))
            by_words = self._words.entries[question.calibration.are_strong(0.0, shares[self._words.entries])]
        if question.vector is None or found is None:
            return len(by_words)
        entries, similarities = units.entries_of(found.unit_ids), cosines(found.vectors, question.vector)
        there = (
            (entries != postings.OUTSIDE)
            & units.inside[entries]
            & (similarities >= (-1.0 if threshold is None else threshold))
        )
        entries, similarities = entries[there], similarities[there]
        return len(np.union1d(entries[question.calibration.are_strong(similarities, shares[entries])], by_words))


class WordWeights:
    """The value of words in terms of cosines: implements `storage.queries.candidates.Weights`."""

    def __init__(
        self, units: postings.Units, words: WordScores | None, weight: float, left_out: Sequence[int] = ()
    ) -> None:
        self.left_out = left_out
        self._units, self._words = units, words
        gains = np.where(np.append(units.inside, False), np.float32(0), np.float32(-np.inf))
        if words is not None:
            gains[words.entries] = words.shares[words.entries] * ((1 - weight) / weight)
        self.of = units.by_id(gains)
        """Returns the values for passages, given the ids of their units."""

    def best(self, count: int) -> Numbers:
        """Return the ids of the units with the highest values."""
        if self._words is None:
            return NO_ENTRIES
        entries = self._words.entries
        ids: Numbers = self._units.ids[entries]
        return ids[best(rounded(self._words.shares[entries]), ids, count)]


def best_of_memories(
    scores: NDArray[np.float64], ids: Numbers, owners: Numbers, similarities: NDArray[np.float64], count: int
) -> tuple[Numbers, NDArray[np.float64]]:
    """Return the positions of the best units of the `count` best memories, best first.

    And for each unit the highest similarity in its memory, ignoring NaN.
    """
    memories, places = np.unique(owners, return_inverse=True)
    highest, nearest = np.full(len(memories), -np.inf), np.full(len(memories), np.nan)
    np.maximum.at(highest, places, scores)
    np.fmax.at(nearest, places, similarities)
    leading = np.flatnonzero(scores == highest[places])
    leading = leading[np.lexsort((ids[leading], places[leading]))]
    first: Numbers = leading[np.searchsorted(places[leading], best(highest, memories, count))]
    return first, nearest[places]


def with_stored_on(found: SearchHits, reader: Reader, scope: Scope, day: str, *, memories: bool) -> SearchHits:
    """Add what was stored on a day, in this order, unless the scope has times of its own; each matches."""
    if scope.created_after or scope.created_before:
        return found
    units, _ = reader.vectors.candidates.indexed(replace(scope, created_after=day, created_before=day), [])
    entries = np.flatnonzero(units.inside)
    owners = units.owners_of(entries).tolist()
    known, lowest = {hit.id for hit in found.hits}, min((hit.score for hit in found.hits), default=1.0)
    stored = dict(sorted(zip(owners if memories else units.ids[entries].tolist(), owners, strict=True)))
    more = [Hit(unit, stored[unit], lowest, None, ("keyword",), covered=1.0) for unit in stored if unit not in known]
    return found._replace(hits=[*found.hits, *more])
