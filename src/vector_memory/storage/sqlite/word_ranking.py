"""BM25 over the units of a scope, from the tables of the keyword index (`keywords`)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.ranking import (
    Match,
    Numbers,
    Ranked,
    Wording,
    best,
    covered_by_best,
    highest_score,
    rounded,
    scores_for,
)
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.keywords import (
    BUCKETS,
    DAMAGED_KEYWORDS,
    LENGTH,
    MAX_COUNT,
    POSTING,
    hash_of,
    hits_in,
    numbers_of,
)
from vector_memory.storage.sqlite.rows import fetch_column

MAX_ENTRIES = 1 << 26
"""More units than a file can have; a higher number counts as damage."""

OUTSIDE = -1
"""The length of a unit that is not in the scope."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The units of a scope as array entries, block by block, with units outside the scope between them.

    `memories`: the ids of the memories, sorted by the entries of their first units, which are `starts`. `firsts`: the
    ids of those first units. `lengths`: of each entry, in terms, or OUTSIDE. `bases`: the number of entries before each
    block of `block_ids`.
    """

    memories: Numbers
    firsts: Numbers
    starts: Numbers
    lengths: Numbers
    block_ids: Numbers
    bases: Numbers
    units: int
    mean_length: float


class ScopeRanking:
    """The WordRanking of a scope of memories, in the connection's transaction.

    `shares`: the score of each entry of the layout, as a share of the highest possible score.
    """

    def __init__(
        self, connection: apsw.Connection, layout: Layout, shares: NDArray[np.float64], wording: Wording
    ) -> None:
        self.wording = wording
        self._connection = connection
        self._layout = layout
        self._shares = shares

    def best(self, count: int) -> Ranked:
        """Return the `count` best units that contain one of the words."""
        layout, entries = self._layout, np.flatnonzero(self._shares)
        owners = np.searchsorted(layout.starts, entries, side="right") - 1
        # The ids of a document's chunks are consecutive, because they are assigned in one transaction.
        ids = layout.firsts[owners] + entries - layout.starts[owners]
        order = best(rounded(self._shares[entries]), ids, count)
        places = np.stack([layout.memories[owners], entries - layout.starts[owners]], axis=1)[order].tolist()
        rows = zip(self._units_at(places), places, self._shares[entries[order]].tolist(), strict=True)
        return Ranked([Match(unit, place[0], score) for unit, place, score in rows], len(entries) <= count)

    def shares(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return the scores, if above 0, of units found elsewhere, by id."""
        starts = dict(zip(self._layout.memories.tolist(), self._layout.starts.tolist(), strict=True))
        numbers = self._numbers_of(matches)
        return {
            match.id: score
            for match, number in zip(matches, numbers, strict=True)
            if match.memory_id in starts and (score := float(self._shares[starts[match.memory_id] + number]))
        }

    def _units_at(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids of units, given their memories and their numbers in these."""
        sql = """
            select coalesce(c.id, place.value ->> 0) from json_each(?) place
            left join memory_chunks c on c.parent_id = place.value ->> 0 and c.chunk_index = place.value ->> 1
            order by place.key
        """
        return fetch_column(self._connection, sql, (json.dumps(places),))

    def _numbers_of(self, matches: Sequence[Match]) -> list[int]:
        """Return the numbers of units in their memories; 0 for a memory that is not chunked."""
        sql = """
            select coalesce(c.chunk_index, 0) from json_each(?) wanted
            left join memory_chunks c on c.id = wanted.value ->> 0 and c.parent_id = wanted.value ->> 1
            order by wanted.key
        """
        return fetch_column(self._connection, sql, (json.dumps([match[:2] for match in matches]),))


def rank(connection: apsw.Connection, scope: Scope, wanted: Sequence[str]) -> ScopeRanking:
    """Score the units of a scope that contain any of the terms by BM25, with the statistics of the scope."""
    layout = _layout(connection, scope)
    scores = np.zeros(len(layout.lengths))
    words: list[tuple[float, Numbers]] = []
    for term in wanted:
        entries, counts = _occurrences(connection, layout, term)
        most = highest_score(layout.units, len(entries))
        words.append((most, entries))
        scores[entries] += scores_for(most, counts, layout.lengths[entries] / layout.mean_length)
    scores /= sum(most for most, _ in words) or 1.0
    return ScopeRanking(connection, layout, scores, Wording(covered_by_best(scores, words), layout.units))


def _layout(connection: apsw.Connection, scope: Scope) -> Layout:
    condition = memory_filter(scope)
    rows = connection.execute(
        f"""
        select k.memory_id, k.block_id, k.first_piece, k.lengths,
            coalesce((select min(c.id) from memory_chunks c where c.parent_id = k.memory_id), k.memory_id)
        from session_memories m join keyword_memories k on k.memory_id = m.id
        where {condition.sql} order by k.block_id, k.first_piece
        """,
        condition.bindings,
    ).fetchall()
    memories, blocks, numbers, blobs, firsts = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    block_ids, block_of = np.unique(np.array(blocks, np.int64), return_inverse=True)
    sizes = fetch_column(
        connection,
        "select pieces from json_each(?) wanted cross join keyword_blocks b on b.id = wanted.value",
        (json.dumps(block_ids.tolist()),),
    )
    bases = np.cumsum([0, *sizes])
    units = np.array([len(blob) // LENGTH.itemsize for blob in blobs], np.int64)
    _require_valid_layout(np.array(sizes, np.int64), block_of, np.array(numbers, np.int64), units)
    starts = bases[block_of] + np.array(numbers, np.int64)
    known = np.frombuffer(b"".join(blobs), LENGTH)
    lengths = np.full(bases[-1], OUTSIDE)
    lengths[np.repeat(starts - np.cumsum(units) + units, units) + np.arange(len(known))] = known
    return Layout(
        memories=np.array(memories, np.int64),
        firsts=np.array(firsts, np.int64),
        starts=starts,
        lengths=lengths,
        block_ids=block_ids,
        bases=bases,
        units=len(known),
        mean_length=float(known.mean()) if known.any() else 1.0,
    )


def _require_valid_layout(sizes: Numbers, block_of: Numbers, firsts: Numbers, units: Numbers) -> None:
    """Raise DamagedError unless the units of all memories are inside their blocks."""
    if (
        len(sizes) <= block_of.max(initial=-1)
        or not (sizes >= 0).all()
        or sizes.sum() > MAX_ENTRIES
        or not ((firsts >= 0) & (firsts + units <= sizes[block_of])).all()
    ):
        raise DamagedError(DAMAGED_KEYWORDS)


def _occurrences(connection: apsw.Connection, layout: Layout, term: str) -> tuple[Numbers, Numbers]:
    """Return the entries of the units that contain the term, and its count in each."""
    bucket, hashed = hash_of(term)
    sql = """
        select block.key, p.postings from json_each(?) block
        cross join keyword_postings p on p.id = block.value * ? + ?
    """
    found = connection.execute(sql, (json.dumps(layout.block_ids.tolist()), BUCKETS, bucket)).fetchall()
    blocks: tuple[int, ...]
    rows: tuple[bytes, ...]
    blocks, rows = zip(*found, strict=True) if found else ((), ())
    postings = np.frombuffer(b"".join(rows), POSTING)
    own = np.repeat(np.array(blocks, np.int64), [len(row) // POSTING.itemsize for row in rows])
    hits = hits_in(postings, hashed)
    entries = layout.bases[own[hits]] + numbers_of(postings[hits])
    if (entries >= layout.bases[own[hits] + 1]).any():
        raise DamagedError(DAMAGED_KEYWORDS)
    inside = layout.lengths[entries] != OUTSIDE
    return entries[inside], postings[hits[inside]].astype(np.int64) & MAX_COUNT
