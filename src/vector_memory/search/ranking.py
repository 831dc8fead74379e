"""Ranking as pure functions: from passages near a query to pieces, and from two lists of pieces to one.

A piece is what a search compares: a chunk, or a whole memory of a kind that is not chunked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vector_memory.results import Source
from vector_memory.storage.vectors import Candidate

VECTOR_WEIGHT = 0.65
"""Share of the cosine in a fused score; the rest is the words'. docs/retrieval.md says how it was chosen."""


class Match(NamedTuple):
    """A piece in one list, and how well it matches there: a cosine, or a BM25 score as a share of the best possible."""

    id: int
    memory_id: int
    score: float


class Hit(NamedTuple):
    """A piece in the final order. `similarity`: its best passage's cosine, cut to 0-1; None if it was not compared."""

    id: int
    memory_id: int
    score: float
    similarity: float | None
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One list: its best matches, best first. `complete`: there are no others.

    `others`: the scores, in the same measure, of pieces that only the other list has found.
    """

    matches: Sequence[Match] = ()
    complete: bool = True
    others: Mapping[int, float] = field(default_factory=dict)

    def last(self) -> float | None:
        """Return the score that no piece outside the list exceeds; None if there are no others."""
        return None if self.complete else self.matches[-1].score

    def scores(self) -> dict[int, float]:
        """Return the scores of all pieces that have one, by id."""
        return {**self.others, **{match.id: match.score for match in self.matches}}


def best_pieces(candidates: Iterable[Candidate]) -> list[Match]:
    """Return the pieces of the wanted candidates, each at its best passage; nearest first, then the older."""
    nearest: dict[int, Candidate] = {}
    for candidate in candidates:
        if not candidate.wanted:
            continue
        piece = candidate.memory_id if candidate.chunk_id is None else candidate.chunk_id
        known = nearest.get(piece)
        if known is None or candidate.distance < known.distance:
            nearest[piece] = candidate
    order = sorted(nearest.items(), key=lambda item: (item[1].distance, item[0]))
    return [Match(piece, candidate.memory_id, cosine(candidate.distance)) for piece, candidate in order]


def cosine(distance: float) -> float:
    """Return the cosine of two unit vectors at this Euclidean distance.

    For unit vectors |a - b|^2 = 2 - 2ab, so that the cosine ab is 1 - d^2 / 2 (seed 001, decision 17).
    """
    return 1.0 - distance**2 / 2.0


def shown(score: float | None) -> float | None:
    """Return a cosine as answers show it, cut to 0-1."""
    return None if score is None else min(1.0, max(0.0, score))


def fused_score(similarity: float, words: float) -> float:
    """Return the convex combination of a cosine and a BM25 score, which is given as a share of the best possible.

    Neither depends on what else is found. A better match in either never lowers the score.
    """
    return VECTOR_WEIGHT * similarity + (1 - VECTOR_WEIGHT) * words


def fuse(near: Ranked, worded: Ranked) -> tuple[list[Hit], float | None]:
    """Return the pieces of both lists, best first, and the score that no piece of neither can exceed.

    That is None when there are no others. A result above it keeps its place however much longer the lists become:
    the threshold algorithm (Fagin, Lotem, Naor 2003).
    """
    similarities, words = near.scores(), worded.scores()
    in_near, in_worded = ({match.id for match in ranked.matches} for ranked in (near, worded))
    hits = [
        Hit(
            piece,
            memory_id,
            fused_score(similarities.get(piece, 0.0), words.get(piece, 0.0)),
            shown(similarities.get(piece)),
            sources_of(piece, in_near, in_worded),
        )
        for piece, memory_id in {match.id: match.memory_id for match in (*near.matches, *worded.matches)}.items()
    ]
    if near.complete and worded.complete:
        return in_order(hits), None
    # A piece that has no vector yet counts as one with cosine 0.
    return in_order(hits), fused_score(max(near.last() or 0.0, 0.0), worded.last() or 0.0)


def from_one(ranked: Ranked, source: Source) -> tuple[list[Hit], float | None]:
    """Return the pieces of the only list, as `fuse` does for two."""
    hits = [
        Hit(match.id, match.memory_id, match.score, shown(match.score) if source == "vector" else None, (source,))
        for match in ranked.matches
    ]
    return hits, ranked.last()


def sources_of(piece: int, near: Collection[int], worded: Collection[int]) -> tuple[Source, ...]:
    """Say which lists hold a piece."""
    found: list[Source] = []
    if piece in near:
        found.append("vector")
    if piece in worded:
        found.append("keyword")
    return tuple(found)


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits in the one order every search uses: by score, then by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def best_of_each_memory(hits: Iterable[Hit]) -> list[Hit]:
    """Return whole memories, each at its best piece: hits whose `id` is the memory's, with its best similarity."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.setdefault(hit.memory_id, hit._replace(id=hit.memory_id))
        similarity = max((value for value in (known.similarity, hit.similarity) if value is not None), default=None)
        best[hit.memory_id] = known._replace(similarity=similarity)
    return in_order(best.values())
