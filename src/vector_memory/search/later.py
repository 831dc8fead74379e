"""Names the memories that are newer than results, and on their subjects: `later_links` has them (`succession`)."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vector_memory.domain import Scope
from vector_memory.results.sessions import LaterMemory
from vector_memory.search.same_subject import BEHIND
from vector_memory.storage.base import Reader
from vector_memory.storage.records import Later

MOST_NAMED = 3
BEGINNING = 240
"""Characters of each that is named."""

LaterFields = Mapping[int, Mapping[str, Any]]
"""The fields `later` and `later_more` of the results of memories, by the ids of those that have newer ones."""


def later_fields(reader: Reader, memory_ids: Sequence[int], scope: Scope, given: Collection[int] = ()) -> LaterFields:
    """Return what names the newer memories of a scope's session, or of all, that are on the subjects of memories.

    Of those `given` in the same answer, the text is not repeated.
    """
    found = newer_memories(reader, memory_ids, Scope(session_id=scope.session_id, as_of=scope.as_of), BEGINNING)
    return {number: fields_of(newer, given) for number, newer in found.items()}


def with_superseding(later: LaterFields, superseded: Mapping[int, list[int]]) -> LaterFields:
    """Return these fields and the field `superseded_by` of the results of memories."""
    numbers = later.keys() | superseded.keys()
    return {number: {**later.get(number, {}), "superseded_by": superseded.get(number, [])} for number in numbers}


def newer_memories(reader: Reader, memory_ids: Sequence[int], scope: Scope, characters: int) -> dict[int, list[Later]]:
    """Return the newer memories of a scope on the subjects of memories, the newest first, by the ids of the older ones.

    Only those that are about as likely to be on the subject as the likeliest. `characters`: of their beginnings.
    """
    linked = defaultdict[int, list[Later]](list)
    for one in reader.later_than(memory_ids, scope, characters) if memory_ids else ():
        linked[one.older_id].append(one)
    most = {number: max(one.evidence for one in found) for number, found in linked.items()}
    return {number: [one for one in found if one.evidence >= most[number] - BEHIND] for number, found in linked.items()}


def fields_of(found: Sequence[Later], given: Collection[int]) -> dict[str, Any]:
    """Return the fields for the newer memories of one memory."""
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
