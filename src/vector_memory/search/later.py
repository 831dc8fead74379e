"""Adds context to results: the neighbours of short hits, and newer memories on the same subject.

A turn of a conversation often says little alone. `later_links` links memories to newer ones on their subjects.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from vector_memory.answers.budget import MARK
from vector_memory.answers.models import FoundChunk, FoundMemory, FoundSection, LaterMemory
from vector_memory.domain import MemoryKind, Scope
from vector_memory.domain.validation import check_range
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.records import Later, Neighbours

T = TypeVar("T", FoundChunk, FoundMemory)
H = TypeVar("H", bound=FoundChunk | FoundSection | FoundMemory)

SAID = {MemoryKind.INPUT_PROMPT, MemoryKind.WORKING_MEMORY}
"""The kinds in which hooks store conversations. A report has no neighbours: those would be other documents."""

NEIGHBOURS = 1
"""Default number of memories on either side of a short hit."""

MAX_NEIGHBOURS = 5

SHORT_TOKENS = 60
"""A hit with fewer tokens is short."""

SHORT_BYTES = 4 * SHORT_TOKENS
"""The same for memories that are not chunked: their tokens are not counted."""

SHOWN = 400
"""Maximum characters of a neighbour."""

ALONE = Neighbours([], [])


def neighbours_of(reader: Reader, scope: Scope, memory_ids: Iterable[int], count: int) -> Steps[dict[int, Neighbours]]:
    """Return the neighbours of memories, up to `count` (0-5) on either side, by id.

    None for a memory with several chunks or outside a conversation; a scope of one agent has only its own memories.
    Raises ValidationError.
    """
    check_range("neighbours", count, 0, MAX_NEIGHBOURS)
    wanted = sorted(set(memory_ids)) if count and scope.kind in SAID else []
    same_agent = scope.agent_id is not None
    neighbours = reader.memories.neighbours.steps(wanted, count, SHOWN + 1, same_agent=same_agent)
    return (yield from neighbours) if wanted else {}


def with_neighbours(results: Sequence[T], known: Mapping[int, Neighbours], *, is_part: bool = False) -> list[T]:
    """Return the results with their neighbours, except those already in the answer.

    `is_part`: one of several questions; `without_repeated` removes repetitions from the joint answer.
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
    """Remove neighbours that are hits themselves or were shown with an earlier hit."""
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


# Newer memories on the subjects of results.

MOST_NAMED = 3
BEGINNING = 240
"""Characters shown of each newer memory."""

BEHIND = 0.1
"""Links whose evidence is lower than the best of the same memory by more than this do not count."""

LaterFields = Mapping[int, Mapping[str, Any]]
"""The fields `later` and `later_more` by memory id, for memories that have newer ones on their subjects."""


@read
def newer_memories(
    reader: Reader, memory_ids: Sequence[int], scope: Scope, characters: int
) -> Steps[dict[int, list[Later]]]:
    """Map older memories to the newer ones of a scope on their subjects, newest first.

    Only those about as likely to be on the subject as the likeliest. `characters`: length of their beginnings.
    """
    linked = defaultdict[int, list[Later]](list)
    for one in (yield from reader.links.later_than.steps(memory_ids, scope, characters)) if memory_ids else ():
        linked[one.older_id].append(one)
    most = {number: max(one.evidence for one in found) for number, found in linked.items()}
    return {number: [one for one in found if one.evidence >= most[number] - BEHIND] for number, found in linked.items()}


def fields_of(found: Sequence[Later], given: Collection[int]) -> dict[str, Any]:
    """Return the fields that name one memory's newer memories; the text of those `given` is not repeated."""
    named = [
        LaterMemory(
            id=one.id,
            title=one.title,
            agent_id=one.agent_id,
            created_at=one.created_at,
            beginning=None if one.id in given else one.beginning,
        )
        for one in found[:MOST_NAMED]
    ]
    return {"later": named, "later_more": len(found) - len(named)}
