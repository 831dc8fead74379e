"""What a search reads of the index of a folder of Markdown files. Its units are the files' chunks."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.ranking import (
    Match,
    Method,
    Numbers,
    Ranked,
    Vectors,
    Wording,
    WordRanking,
    best,
    covered_by_best,
    highest_score,
    rounded,
    scores_for,
)
from vector_memory.storage.sqlite.candidates import NearestUnits
from vector_memory.storage.sqlite.file_index import PASSAGES, VECTOR_TABLE
from vector_memory.storage.sqlite.file_rows import fingerprint_of, hash_of
from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.sqlite.vec0.blocks import read_vectors
from vector_memory.storage.sqlite.vectors import Candidates, as_arrays, candidates_of


class FoundChunk(NamedTuple):
    """A chunk as searches show it."""

    id: int
    path: str
    text: str
    start_line: int
    end_line: int


class FileVectors:
    """The VectorTable of the chunks of daily logs, of other files, or with None of all."""

    def __init__(self, connection: apsw.Connection, *, daily: bool | None) -> None:
        self._connection = connection
        self._daily = daily

    def nearest(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` passages nearest to the query, nearest first."""
        condition = "" if self._daily is None else "and daily = :daily"
        sql = f"select id, embedding from {VECTOR_TABLE} where embedding match :query and k = :k {condition}"
        bindings = {"query": query.tobytes(), "k": k, "daily": self._daily}
        rows: list[Any] = self._connection.execute(sql, bindings).fetchall()
        units = [(row_id // PASSAGES, vector) for row_id, vector in rows]
        return candidates_of([(unit, unit, True, vector) for unit, vector in units], len(query))

    def sorted_by_unit(self, limit: int) -> Numbers:
        """Return the first passages by their units' ids, -1: all; shape (passages, 3): passage, unit and unit."""
        sql = "select id, passages from chunks where passages > 0 and (:daily is null or daily = :daily) order by id"
        rows = np.array(self._connection.execute(sql, {"daily": self._daily}).fetchall(), np.int64).reshape(-1, 2)
        units = np.repeat(rows[:, 0], rows[:, 1])
        numbers = np.arange(len(units)) - np.repeat(np.cumsum(rows[:, 1]) - rows[:, 1], rows[:, 1])
        passages = np.stack([units * PASSAGES + numbers, units, units], axis=1)
        return passages if limit < 0 else passages[:limit]

    def vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""
        return read_vectors(self._connection, VECTOR_TABLE, self._dimensions(), passage_ids)

    def vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the vectors of all passages of chunks, and which chunk each is of."""
        sql = f"""
            with recursive passage (chunk, id, last) as (
                select c.id, c.id * :passages, c.id * :passages + c.passages - 1
                from json_each(:ids) wanted join chunks c on c.id = wanted.value where c.passages > 0
                union all select chunk, id + 1, last from passage where id < last
            )
            select p.chunk, v.embedding from passage p join {VECTOR_TABLE} v on v.id = p.id
        """
        bindings = {"ids": json.dumps(list(unit_ids)), "passages": PASSAGES}
        rows: list[Any] = self._connection.execute(sql, bindings).fetchall()
        return as_arrays(rows, self._dimensions())

    def _dimensions(self) -> int:
        fingerprint = fingerprint_of(self._connection)
        return fingerprint.dimensions if fingerprint else 1


class FileWords:
    """The WordRanking of chunks, whose ids are `ids`, ascending. `shares`: their scores, as shares of the possible."""

    def __init__(self, ids: Numbers, shares: NDArray[np.float64], wording: Wording) -> None:
        self.wording = wording
        self._ids = ids
        self._shares = shares

    def best(self, count: int) -> Ranked:
        """Return the `count` best of the chunks that have one of the words."""
        having = np.flatnonzero(self._shares)
        chosen = having[best(rounded(self._shares[having]), self._ids[having], count)]
        found = zip(self._ids[chosen].tolist(), self._shares[chosen].tolist(), strict=True)
        return Ranked([Match(unit, unit, share) for unit, share in found], complete=len(having) <= count)

    def shares(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return the scores above 0 of chunks that something else has found, by id."""
        wanted = np.isin(self._ids, [match.id for match in matches]) & (self._shares > 0)
        return dict(zip(self._ids[wanted].tolist(), self._shares[wanted].tolist(), strict=True))


class FileCandidates(NearestUnits):
    """The CandidateSource of the chunks of daily logs, of other files, or with None of all."""

    def __init__(self, connection: apsw.Connection, *, daily: bool | None, method: Method) -> None:
        super().__init__(FileVectors(connection, daily=daily), method)
        self._connection = connection
        self._daily = daily

    def rank_words(self, terms: Sequence[str]) -> WordRanking:
        """Rank the chunks for any of the terms, with the statistics of those that are searched."""
        sql = "select id, words from chunks where :daily is null or daily = :daily order by id"
        rows = self._connection.execute(sql, {"daily": self._daily}).fetchall()
        ids, lengths = np.array(rows, np.int64).reshape(-1, 2).T
        mean_length = float(lengths.mean()) if lengths.any() else 1.0
        scores = np.zeros(len(ids))
        words: list[tuple[float, Numbers]] = []
        for term in terms:
            places, counts = self._occurrences(ids, term)
            most = highest_score(len(ids), len(places))
            words.append((most, places))
            scores[places] += scores_for(most, counts, lengths[places] / mean_length)
        scores /= sum(most for most, _ in words) or 1.0
        return FileWords(ids, scores, Wording(covered_by_best(scores, words), len(ids)))

    def _occurrences(self, ids: Numbers, term: str) -> tuple[Numbers, Numbers]:
        """Return the places among the ids of the chunks that have a term, and how often each has it."""
        sql = "select chunk_id, count from postings where term = ? order by chunk_id"
        rows = self._connection.execute(sql, (hash_of(term),)).fetchall()
        chunk_ids, counts = np.array(rows, np.int64).reshape(-1, 2).T
        inside = np.isin(chunk_ids, ids)
        return np.searchsorted(ids, chunk_ids[inside]), counts[inside]


def chunks_with(connection: apsw.Connection, ids: Sequence[int]) -> list[FoundChunk]:
    """Return those of the chunks that exist, in the given order."""
    sql = """
        select c.id, c.path, c.text, c.start_line, c.end_line
        from json_each(?) wanted join chunks c on c.id = wanted.value order by wanted.key
    """
    return fetch(connection, FoundChunk, sql, (json.dumps(list(ids)),))
