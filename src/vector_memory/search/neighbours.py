"""What stands before and after a short hit in its session: a turn of a conversation often says little alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from vector_memory.domain import Scope
from vector_memory.domain.validation import check_range
from vector_memory.results.sessions import FoundChunk, FoundMemory
from vector_memory.storage.base import Reader
from vector_memory.storage.records import Neighbours

T = TypeVar("T", FoundChunk, FoundMemory)

NEIGHBOURS = 1
"""Memories given on either side of a short hit, unless the caller wants more or none."""

MAX_NEIGHBOURS = 5

SHORT_TOKENS = 60
"""A hit of fewer tokens is short."""

SHORT_BYTES = 4 * SHORT_TOKENS
"""The same for memories that are not chunked, whose tokens nobody has counted."""

SHOWN = 400
"""Characters of a neighbour."""

CUT = "…"


def neighbours_of(reader: Reader, scope: Scope, memory_ids: Iterable[int], count: int) -> dict[int, Neighbours]:
    """Return the neighbours of memories, up to `count` (0-5) on either side, by id; none of those with several chunks.

    In a scope of one agent they are the agent's. Raises ValidationError.
    """
    check_range("neighbours", count, 0, MAX_NEIGHBOURS)
    wanted = sorted(set(memory_ids)) if count else []
    same_agent = scope.agent_id is not None
    return reader.neighbours(wanted, count, SHOWN + 1, same_agent=same_agent) if wanted else {}


def beside(results: Sequence[T], known: Mapping[int, Neighbours]) -> list[T]:
    """Return the results with their neighbours, of those that have some."""
    return [_with(result, known.get(memory_of(result))) for result in results]


def memory_of(result: FoundChunk | FoundMemory) -> int:
    """Return the id of a result's memory."""
    return result.memory_id if isinstance(result, FoundChunk) else result.id


def _with(result: T, neighbours: Neighbours | None) -> T:
    if neighbours is None:
        return result
    before, after = (list(map(_shown, texts)) for texts in neighbours)
    return result.model_copy(update={"context_before": before, "context_after": after})


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + CUT
