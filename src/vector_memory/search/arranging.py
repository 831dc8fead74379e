"""Makes results of what was found: near copies under the newest; if it is preferred, the latest on a subject first."""

from collections.abc import Callable, Mapping, Sequence

from vector_memory.domain import LATEST, TRAITS, Page, Scope
from vector_memory.search.confidence import judged
from vector_memory.search.copies import RUN, copies_of_hits, folded, whole_runs
from vector_memory.search.fusion import Hit
from vector_memory.search.later import newer_memories
from vector_memory.search.relevance import J, latest_first
from vector_memory.search.retrieval import GROWTH, MAX_DEPTH, Retrieval
from vector_memory.storage.base import Reader


def needed_for(page: Page) -> int:
    """Return how many results a page needs: one more tells that others follow, and of the first the latest leads."""
    return max(page.end + (not page.is_part), RUN if page.prefer == LATEST else 0)


def results_of(
    retrieval: Retrieval, scope: Scope, hits: Sequence[Hit], page: Page, *, folds: bool, memories: bool = False
) -> Sequence[Hit]:
    """Return the results for a page, given the first hits as they were judged: whole runs of them.

    `folds`: near copies are under the newest of them. `memories`: hits are whole memories.
    """
    if page.is_part:
        return hits
    needed, chunks = needed_for(page), not memories and scope.kind is not None and TRAITS[scope.kind].chunked

    def find(count: int) -> Sequence[Hit]:
        return judged(retrieval.find(scope, count, memories=memories), retrieval.question)

    def copies(found: Sequence[Hit]) -> Mapping[int, int]:
        return copies_of_hits(retrieval, found, needed, chunks=chunks) if folds else {}

    found = folded(*found_for(hits, whole_runs(needed), needed, find, copies, list))
    return preferred(retrieval.reader, scope, found, page)


def found_for(
    hits: Sequence[Hit],
    count: int,
    needed: int,
    find: Callable[[int], Sequence[Hit]],
    copies: Callable[[Sequence[J]], Mapping[int, int]],
    results: Callable[[Sequence[Hit]], Sequence[J]],
) -> tuple[Sequence[J], Mapping[int, int]]:
    """Return the results of hits, and the places of copies among them: of so many that those needed are without these.

    `hits`: the first `count`, or all if there are fewer. `find` returns more.
    """
    while True:
        found = results(hits)
        places = copies(found)
        if not places or len(found) - len(places) >= needed or len(hits) < count or count >= MAX_DEPTH:
            return found, places
        count = min(count * GROWTH, MAX_DEPTH)
        hits = find(count)


def preferred(reader: Reader, scope: Scope, found: Sequence[J], page: Page) -> Sequence[J]:
    """Return results in the order that a page prefers."""
    return latest_first(found, newer_of(reader, scope, [one.memory_id for one in found[:RUN]], page))


def newer_of(reader: Reader, scope: Scope, memory_ids: Sequence[int], page: Page) -> Mapping[int, Sequence[int]]:
    """Return the ids of the memories that are newer than some and on their subjects, the newest first.

    None, if the page does not prefer the latest.
    """
    if page.prefer != LATEST:
        return {}
    found = newer_memories(
        reader, list(dict.fromkeys(memory_ids)), Scope(session_id=scope.session_id, as_of=scope.as_of), 0
    )
    return {number: [one.id for one in newer] for number, newer in found.items()}
