"""Ranks the chunks of a folder of Markdown files, which are the units of its searches."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.scoring import (
    NOTHING_TYPED,
    Match,
    Numbers,
    Ranked,
    Vectors,
    Wording,
    WordRanking,
    best,
    divisor_of,
    highest_score,
    rounded,
    scores_for,
)
from vector_memory.storage.sqlite.file_contents import Contents
from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.term_coverage import covered_by_best


class FoundChunk(NamedTuple):
    """A chunk as searches show it."""

    id: int
    path: str
    text: str
    start_line: int
    end_line: int


class ChunkScores:
    """The scores of those chunks that have one, in one measure. `ids`: those of the chunks, which ascend."""

    def __init__(self, ids: Numbers, scores: NDArray[np.float64]) -> None:
        self._ids = ids
        self._scores = scores

    def best(self, count: int) -> Ranked:
        """Return the `count` best chunks."""
        return Ranked(self._matches(best(rounded(self._scores), self._ids, count)), complete=len(self._ids) <= count)

    def shares(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return the scores of chunks found elsewhere, by id."""
        wanted = np.flatnonzero(np.isin(self._ids, [match.id for match in matches]))
        return {match.id: match.score for match in self._matches(wanted)}

    def _matches(self, places: Numbers) -> list[Match]:
        found = zip(self._ids[places].tolist(), self._scores[places].tolist(), strict=True)
        return [Match(chunk, chunk, score) for chunk, score in found]


class FileWords(ChunkScores):
    """The WordRanking of chunks."""

    def __init__(self, ids: Numbers, shares: NDArray[np.float64], wording: Wording) -> None:
        super().__init__(ids, shares)
        self.wording = wording


class FileCandidates:
    """The CandidateSource of the chunks of daily logs, of other files, or with None of all. It compares all of them.

    `contents`: those of the connection's snapshot.
    """

    def __init__(self, connection: apsw.Connection, contents: Contents, *, daily: bool | None) -> None:
        self._connection = connection
        self._contents = contents
        self._is_searched = np.isin(contents.daily, [True, False] if daily is None else [daily])
        self._near: tuple[Vectors, ChunkScores] | None = None

    def nearest(self, query: Vectors, count: int) -> Ranked:
        """Return the `count` chunks with the nearest passages."""
        return self._compared(query).best(count)

    def similarities(self, query: Vectors, matches: Sequence[Match]) -> dict[int, float]:
        """Return the cosines of chunks found elsewhere, by id."""
        return self._compared(query).shares(matches)

    def rank_words(self, terms: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED) -> WordRanking:
        """Rank the chunks for any of the terms, with the statistics of those that are searched."""
        del plain  # whoever asks files sees their words
        lengths = self._contents.lengths
        units = int(np.count_nonzero(self._is_searched))
        mean_length = lengths.sum(where=self._is_searched) / max(units, 1) or 1.0
        scores = np.zeros(len(lengths))
        words: list[tuple[float, Numbers]] = []
        for occurrences in self._contents.occurrences(self._connection, terms):
            places, counts = occurrences[:, self._is_searched[occurrences[0]]]
            most = highest_score(units, len(places))
            words.append((most, places))
            scores[places] += scores_for(most, counts, lengths[places] / mean_length)
        having = np.flatnonzero(scores)
        wording = Wording(covered_by_best(scores, terms, words))
        scores /= divisor_of(scores, sum(most for most, _ in words))
        return FileWords(self._contents.ids[having], scores[having], wording)

    def _compared(self, query: Vectors) -> ChunkScores:
        """Return the cosines of the chunks that are searched and have vectors; they are computed once a query."""
        if self._near is None or self._near[0] is not query:
            cosines = self._contents.similarities(self._connection, query)
            having = np.flatnonzero(self._is_searched & (cosines > -np.inf))
            self._near = query, ChunkScores(self._contents.ids[having], cosines[having])
        return self._near[1]


def chunks_with(connection: apsw.Connection, ids: Sequence[int]) -> list[FoundChunk]:
    """Return those of the chunks that exist, in the given order."""
    sql = """
        select c.id, c.path, c.text, c.start_line, c.end_line
        from json_each(?) wanted join chunks c on c.id = wanted.value order by wanted.key
    """
    return fetch(connection, FoundChunk, sql, (json.dumps(list(ids)),))
