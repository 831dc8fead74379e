"""Finds the best units of a scope with what a storage engine finds in its tables, without the index in memory."""

from dataclasses import replace
from typing import TYPE_CHECKING

from vector_memory.search.fusion import Hit, Horizon, SearchHits, best_of_each_memory, clipped, from_single, fuse
from vector_memory.storage.ranking import CandidateSource, Match, Ranked

if TYPE_CHECKING:
    from vector_memory.search.retriever import Question

DEPTH = 50
"""How many of the best units of each list are compared first; this usually settles ten results."""

GROWTH = 4

MAX_DEPTH = DEPTH * GROWTH**4
"""The longest list: a search that needs a longer one gives up and says so."""


def best_units(source: CandidateSource, question: "Question", count: int, *, memories: bool = False) -> SearchHits:
    """Return the `count` best units, or with `memories` the memories that have them.

    Both lists grow until no unit outside them can rank before a returned one.
    """
    vector = question.vector
    words = None if question.terms is None else source.rank_words(question.terms)
    wording = None if words is None else words.wording
    depth = max(DEPTH, count)
    while True:
        near = None if vector is None else source.nearest(vector, depth)
        worded = None if words is None else words.best(depth)
        if vector is not None and near is not None and words is not None and worded is not None:
            near_only, worded_only = only_in(near, worded), only_in(worded, near)
            near = replace(near, others=source.similarities(vector, worded_only))
            worded = replace(worded, others=words.shares(near_only))
        hits, horizon = merged(near, worded)
        partial = near is not None and near.partial
        settled = [hit for hit in hits if partial or horizon is None or horizon.is_behind(hit.score, hit.id)]
        found = best_of_each_memory(settled) if memories else settled
        nearest = clipped(near.matches[0].score) if near and near.matches else None
        if horizon is None or partial or len(found) >= count:
            return SearchHits(found[:count], nearest, partial, wording)
        if depth >= MAX_DEPTH:
            return SearchHits(
                (best_of_each_memory(hits) if memories else hits)[:count], nearest, partial=True, wording=wording
            )
        depth *= GROWTH


def merged(near: Ranked | None, worded: Ranked | None) -> tuple[list[Hit], Horizon | None]:
    """Return the units of the given lists, best first, and the horizon that no other unit ranks before."""
    if worded is None:
        return from_single(near or Ranked(), "vector")
    if near is None:
        return from_single(worded, "keyword")
    return fuse(near, worded)


def only_in(ranked: Ranked, other: Ranked) -> list[Match]:
    """Return the matches of a list that another list has not found."""
    known = {match.id for match in other.matches}
    return [match for match in ranked.matches if match.id not in known]
