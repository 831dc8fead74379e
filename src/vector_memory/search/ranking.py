"""Ranking as pure functions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vector_memory.storage.vectors import Candidate


class Match(NamedTuple):
    """A chunk or a memory, and the Euclidean distance of its best passage."""

    id: int
    memory_id: int
    distance: float

    @property
    def similarity(self) -> float:
        """The cosine of the best passage with the query, cut to 0-1.

        For unit vectors |a - b|^2 = 2 - 2ab, so that the cosine ab is 1 - d^2 / 2 (seed 001, decision 17).
        """
        return min(1.0, max(0.0, 1.0 - self.distance**2 / 2.0))


def best_chunks(candidates: Iterable[Candidate]) -> list[Match]:
    """Return the chunks of the wanted candidates, each at its best passage; nearest first, then the older."""
    found: dict[int, Match] = {}
    for candidate in candidates:
        if candidate.wanted and candidate.chunk_id is not None:
            keep_nearer(found, Match(candidate.chunk_id, candidate.memory_id, candidate.distance))
    return ranked(found)


def best_memories(candidates: Iterable[Candidate]) -> list[Match]:
    """Return the memories of the wanted candidates, each at its best passage; nearest first, then the older."""
    found: dict[int, Match] = {}
    for candidate in candidates:
        if candidate.wanted:
            keep_nearer(found, Match(candidate.memory_id, candidate.memory_id, candidate.distance))
    return ranked(found)


def keep_nearer(found: dict[int, Match], match: Match) -> None:
    """Keep a match unless its id is known at least as near."""
    known = found.get(match.id)
    if known is None or match.distance < known.distance:
        found[match.id] = match


def ranked(found: dict[int, Match]) -> list[Match]:
    """Return matches in the one order every search uses: by distance, then by id."""
    return sorted(found.values(), key=lambda match: (match.distance, match.id))


def settled(matches: Sequence[Match], horizon: float) -> list[Match]:
    """Return the matches whose rank no further candidate can change: those nearer than the last one fetched."""
    return [match for match in matches if match.distance < horizon]
