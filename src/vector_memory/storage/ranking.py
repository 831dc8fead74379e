"""What a search asks of a storage engine, and the measures that both sides of that seam share.

A unit is what a search compares: a chunk, or a whole memory of a kind that is not chunked.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]

SCALE = 1e6
"""Cosines and shares of BM25 are compared with six decimals; float32 arithmetic says no more about a cosine."""

ROUNDING = 1e-5
"""More than what the same cosine can differ by when it is computed in another way."""

COMPARED = 1_024
"""Vectors compared at a time: what is between the steps stays in the processor's cache."""

K1 = 0.9
"""BM25: how much further occurrences of a term in a unit count."""
B = 1.0
"""BM25: how much the length of a unit counts, which is the number of its terms."""


class Match(NamedTuple):
    """A unit in one list, and how well it matches there: a cosine, or a BM25 score as a share of the best possible.

    Measures are rounded. Lists are in the order of the score, then of the id. `memory_id`: what the unit is part of.
    """

    id: int
    memory_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """One list: its best matches, best first. `complete`: there are no others.

    `others`: the scores, in the same measure, of units that only the other list has found. `partial`: not everything
    could be compared, so that what is not in the list may be as good.
    """

    matches: Sequence[Match] = ()
    complete: bool = True
    others: Mapping[int, float] = field(default_factory=dict)
    partial: bool = False

    def scores(self) -> dict[int, float]:
        """Return the scores of all units that have one, by id."""
        return {**self.others, **{match.id: match.score for match in self.matches}}


class Method(NamedTuple):
    """How an engine looks for the nearest. `batch`: passages fetched at first. `iterative`: in growing batches."""

    batch: int = 100
    iterative: bool = True


class Wording(NamedTuple):
    """How much of a query's wording a scope has.

    `covered`: the share of the query's words, weighed by their rarity, in the unit that matches them best. `units`: how
    many units the scope has.
    """

    covered: float
    units: int


class WordRanking(Protocol):
    """The BM25 scores of a scope's units for the words of a query, as shares of the best that any text could have."""

    @property
    def wording(self) -> Wording:
        """How much of the query's wording the scope has."""

    def best(self, count: int) -> Ranked:
        """Return the `count` best of the units that have one of the words."""

    def shares(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return the scores above 0 of units that something else has found, by id."""


class CandidateSource(Protocol):
    """What an engine says of the units of one scope, as one snapshot has them."""

    def nearest(self, query: Vectors, count: int) -> Ranked:
        """Return the `count` units with the nearest passages: ids and order are those of a scan of the scope.

        `query`: a unit vector, shape (dimensions,). `partial` where the engine gives up before it can be sure.
        """

    def rank_words(self, terms: Sequence[str]) -> WordRanking:
        """Rank the scope's units for any of the terms, with the statistics of the scope."""

    def similarities(self, query: Vectors, matches: Sequence[Match]) -> dict[int, float]:
        """Return the cosines of units that something else has found, by id; those without vectors have none."""


PLACES_PER_BLOCK = 1 << 20
"""An engine may keep the units of neighbouring memories in blocks. The place of a unit is one number: that of its block
times PLACES_PER_BLOCK, and its number in the block. The units of a memory have places that follow each other."""


class Revision(NamedTuple):
    """What tells whether that which is kept of a memory in memory is still right, and whether there is more.

    `epoch`: another number after whatever makes all of it void. Ids ascend in the order of commits and are never given
    twice: the last ones say whether there are new memories, chunks or passages. `removals`: how many memories have been
    taken out of the index. Within an epoch no field ever falls.
    """

    epoch: int
    removals: int
    last_memory_id: int
    last_chunk_id: int
    last_passage_id: int


class IndexedMemory(NamedTuple):
    """What filters ask of a memory, and where its units are; `session_id` and `task_code` are empty without one.

    `place`: that of its first unit. `lengths`: of its units in order, in terms.
    """

    memory_id: int
    kind: str
    session_id: str
    agent_id: str
    task_code: str
    session_iter: int
    place: int
    lengths: NDArray[np.integer]


class PlacedPassage(NamedTuple):
    """A passage by its id, and the memory and unit that it is of."""

    id: int
    memory_id: int
    unit_id: int


class IndexFeed(Protocol):
    """What a process follows to keep an index in memory, as one snapshot has it.

    An engine without a feed answers every search from its CandidateSource. Raises DatabaseError for damaged data.
    """

    def revision(self) -> Revision:
        """Return the revision of the snapshot."""

    def dimensions(self) -> int:
        """Return the length of the vectors."""

    def memories_after(self, memory_id: int, limit: int) -> list[IndexedMemory]:
        """Return at most `limit` indexed memories with ids above `memory_id`, in the order of their ids."""

    def memories_with_chunks_after(self, chunk_id: int, last_memory_id: int) -> list[IndexedMemory]:
        """Return those of the memories up to `last_memory_id` that have chunks with ids above `chunk_id`."""

    def memory_ids(self) -> list[int]:
        """Return the ids of all indexed memories."""

    def chunks_of(self, memory_ids: Sequence[int]) -> Numbers:
        """Return the chunks of memories, shape (chunks, 2): memory id and chunk id, by memory as given, in order."""

    def memories_in(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope."""

    def occurrences(self, term: str, blocks: Sequence[int] | None) -> tuple[Numbers, NDArray[np.uint16]]:
        """Return the places of the units that have a term, and how often each has it; with None in all blocks."""

    def passages_after(self, passage_id: int, limit: int) -> list[PlacedPassage]:
        """Return at most `limit` passages with ids above `passage_id`, in their order."""

    def passages_there(self, passage_ids: Sequence[int]) -> list[int]:
        """Return those of the passages that exist."""

    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors; fast for neighbours."""

    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the same of passages of a scope of one kind that are far from each other."""


def covered_by_best(shares: NDArray[np.float64], words: Sequence[tuple[float, NDArray[np.integer]]]) -> float:
    """Return the share of a query's words that the unit with the highest score has.

    `words`: of each, what no unit can score for it, and the places in `shares` of the units that have it.
    """
    possible = sum(highest for highest, _ in words)
    if not possible or not shares.any():
        return 0.0
    place = int(shares.argmax())
    return float(sum(highest for highest, places in words if (places == place).any()) / possible)


def rounded(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the values with six decimals."""
    result: NDArray[np.float64] = np.rint(np.asarray(values, np.float64) * SCALE) / SCALE
    return result


def best(scores: NDArray[np.floating], ids: Numbers, count: int) -> Numbers:
    """Return the places of the `count` highest scores in order: the highest first, of equal ones the lowest id.

    However many are equal, no more than `count` are sorted.
    """
    places = np.arange(len(scores))
    if len(places) > count:
        enough = np.partition(scores, -count)[-count]
        above, equal = np.flatnonzero(scores > enough), np.flatnonzero(scores == enough)
        room = count - len(above)
        places = np.concatenate([above, equal[np.argpartition(ids[equal], room - 1)[:room]]])
    order: Numbers = places[np.lexsort((ids[places], -scores[places]))]
    return order


def cosines(vectors: Vectors, query: Vectors) -> NDArray[np.float64]:
    """Return the cosines of unit vectors, shape (vectors, dimensions), with the query's, rounded.

    For unit vectors |a - b|^2 = 2 - 2ab. Every search compares by this function in the end, whatever has found the
    vectors: the same vector has the same cosine then, to the last bit, which no matrix product warrants.
    """
    result = np.empty(len(vectors))
    for start in range(0, len(vectors), COMPARED):
        block = slice(start, start + COMPARED)
        result[block] = 1 - np.square(vectors[block] - query).sum(axis=1).astype(np.float64) / 2
    return rounded(result)


def highest_score(units: int, having: int) -> float:
    """Return what no unit can score for a term that `having` of the units have.

    Robertson and Zaragoza 2009, with an idf that is never negative, as in Lucene: `log(1 + (N - n + 0.5) / (n + 0.5))`.
    """
    return math.log1p((units - having + 0.5) / (having + 0.5)) * (K1 + 1)


def scores_for(highest: float, counts: NDArray[np.integer], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what units score for a term by its counts in them; lengths are given as shares of the mean one."""
    scores: NDArray[np.float64] = highest * counts / (counts + K1 * (1 - B + B * lengths))
    return scores
