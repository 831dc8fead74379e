"""What was said before and after a short hit: a turn of a conversation often says little alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np

from vector_memory.domain import MemoryKind, Scope
from vector_memory.domain.validation import check_range
from vector_memory.results.sessions import FoundChunk, FoundMemory, FoundSection
from vector_memory.results.shortening import MARK
from vector_memory.search.retrieval import Retriever, find_among
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import Memory, Neighbours

T = TypeVar("T", FoundChunk, FoundMemory)
H = TypeVar("H", bound=FoundChunk | FoundSection | FoundMemory)

SAID = {MemoryKind.INPUT_PROMPT, MemoryKind.WORKING_MEMORY}
"""The kinds that hooks store a conversation as. A report has no neighbours: those would be other documents."""

NEIGHBOURS = 1
"""Default number of memories on either side of a short hit."""

MAX_NEIGHBOURS = 5

SHORT_TOKENS = 60
"""A hit with fewer tokens is short."""

SHORT_BYTES = 4 * SHORT_TOKENS
"""The same for memories that are not chunked, whose tokens were not counted."""

SHOWN = 400
"""Characters of a neighbour."""

ALONE = Neighbours([], [])


def neighbours_of(reader: Reader, scope: Scope, memory_ids: Iterable[int], count: int) -> Steps[dict[int, Neighbours]]:
    """Return what was said beside memories, up to `count` (0-5) on either side, by id; in a scope of one agent, by it.

    Nothing for a memory with several chunks, or one that is not of a conversation. Raises ValidationError.
    """
    check_range("neighbours", count, 0, MAX_NEIGHBOURS)
    wanted = sorted(set(memory_ids)) if count and scope.kind in SAID else []
    same_agent = scope.agent_id is not None
    return (yield from reader.neighbours.steps(wanted, count, SHOWN + 1, same_agent=same_agent)) if wanted else {}


def beside(results: Sequence[T], known: Mapping[int, Neighbours], *, is_part: bool = False) -> list[T]:
    """Return the results with their neighbours, except those already in the answer.

    `is_part`: most of the results are not in the answer, which leaves out what is repeated (`without_repeated`).
    """
    numbers = [result.memory_id if isinstance(result, FoundChunk) else result.id for result in results]
    given = set() if is_part else set(numbers)
    fuller = []
    for number, result in zip(numbers, results, strict=True):
        sides = [[one for one in side if one.memory_id not in given] for side in known.get(number, ALONE)]
        given.update(one.memory_id for side in sides for one in side if not is_part)
        before, after = ([_shown(one.beginning) for one in side] for side in sides)
        fuller.append(result.model_copy(update={"context_before": before, "context_after": after}))
    return fuller


def without_repeated(results: Sequence[H]) -> list[H]:
    """Return results of several answers without neighbours that are hits themselves, or stand beside an earlier one."""
    given = {_shown(result.chunk_content) for result in results if isinstance(result, FoundChunk)}
    once: list[H] = []
    for result in results:
        sides: dict[str, list[str]] = {}
        if isinstance(result, FoundChunk):
            for name in ("context_before", "context_after"):
                sides[name] = [text for text in result[name] if text not in given]
                given.update(sides[name])
        once.append(cast("H", result.model_copy(update=sides)))
    return once


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + MARK


# Finds the memories that are nearest to a memory in meaning, of all kinds and sessions.


class Near(NamedTuple):
    """A memory, and the cosine of its nearest passage."""

    memory: Memory
    cosine: float


def nearest_to(reader: Reader, retriever: Retriever, memory_id: int, count: int) -> Sequence[Near]:
    """Return the `count` memories nearest to the mean vector of a memory, nearest first; none if it has no vector."""
    _, means = reader.mean_vectors([memory_id])
    if not len(means) or not np.any(means):
        return []
    vector = means[0] / np.linalg.norm(means[0])
    found = find_among([retriever.near(reader, vector, Scope(kind)) for kind in MemoryKind], count + 1, memories=True)
    hits = [hit for hit in found.hits if hit.memory_id != memory_id and hit.similarity is not None][:count]
    memories = reader.memories([hit.memory_id for hit in hits])
    require_all(memories, (hit.memory_id for hit in hits))
    return [Near(memories[hit.memory_id], hit.similarity or 0.0) for hit in hits]
