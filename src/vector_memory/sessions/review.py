"""Says what in a memory may be out of date: memories with later ones on their subject, and those that nobody reads."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from vector_memory.domain import Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_LIMIT, check_range, parse_id
from vector_memory.results.budget import ResponseBudget
from vector_memory.results.mapping import beginning
from vector_memory.results.overview import ReviewedMemory, ReviewLine, ReviewResult
from vector_memory.results.sessions import Result
from vector_memory.search.copies import repeats
from vector_memory.sessions.differences import differing
from vector_memory.sessions.writer import require_existing
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Link, Memory

COMPARED = 200
"""The texts of so many memories are compared with later ones: of those whose subject was taken up last."""

UNREAD_DAYS = 30
"""What was stored so long ago and never read may not be needed."""

LENGTH = 200
"""Bytes of a beginning."""


class Review:
    """Reviews a memory, without a language model."""

    def __init__(self, storage: Storage, budget: ResponseBudget) -> None:
        self._storage = storage
        self._budget = budget

    def review(self, scope: Scope, limit: int) -> ReviewResult:
        """Return what to look at in a scope: likely contradictions first, then what is older, then what is unread."""
        check_range("limit", limit, 1, MAX_LIMIT)
        before = (datetime.now(UTC) - timedelta(days=UNREAD_DAYS)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            latest = latest_of_each(reader.links_within(scope))
            compared = sorted(latest, key=lambda older: (-latest[older], -older))[:COMPARED]
            memories = reader.memories(sorted({*compared, *(latest[older] for older in compared)}))
            unread = reader.unread(scope, before)
            old = reader.memories(unread[:limit])
        older = [line_for(memories[one], memories[latest[one]]) for one in compared if one in memories]
        older.sort(key=lambda line: not line.differences)
        lines = [*older, *map(line_for, old.values())]

        def build(budget: ResponseBudget) -> ReviewResult:
            shown = budget.fitting(lines[:limit])
            total, message = len(latest) + len(unread), review_message(shown, len(latest))
            return ReviewResult(lines=shown, total=total, message=message)

        return self._budget.fit(build)

    def dismiss(self, memory_id: str | int) -> Result:
        """Forget the later memories on the subject of a memory: none of them corrects it. Raises NotFoundError."""
        number = parse_id("memory_id", memory_id)
        with self._storage.write() as writer:
            require_existing(writer, [number])
            writer.unlink(number)
        return Result(message=f"No memory stored so far corrects memory {number}.")


def latest_of_each(links: Iterable[Link]) -> dict[int, int]:
    """Return for each memory with later ones on its subject the last of them, also of those on theirs.

    Only what was stored later counts, whatever its date: nothing else can supersede it.
    """
    latest: dict[int, int] = {}
    stored_later = [link for link in links if link.newer_id > link.older_id]
    for link in sorted(stored_later, key=lambda link: -link.newer_id):
        last = latest.get(link.newer_id, link.newer_id)
        latest[link.older_id] = max(latest.get(link.older_id, 0), last)
    return latest


def line_for(memory: Memory, later: Memory | None = None) -> ReviewLine:
    """Return the line for a memory, with the last one on its subject if there is any."""
    return ReviewLine(
        **reviewed(memory),
        later=None if later is None else ReviewedMemory(**reviewed(later)),
        differences=[] if later is None else differing(memory.content, later.content),
        is_repeated=later is not None and repeats(later, memory),
    )


def reviewed(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that a review shows."""
    fields = beginning(memory, LENGTH)
    return {name: fields[name] for name in ReviewedMemory.model_fields}


def review_message(lines: Sequence[ReviewLine], older: int) -> str:
    """Say what there is, and what to do with it. `older`: number of memories with a later one on their subject."""
    if not lines:
        return "Nothing to review: no memory has a later one on its subject, and none is old and unread."
    if not older:
        return f"{counted(len(lines), 'memory was', 'memories were')} never read in {UNREAD_DAYS} days."
    return (
        f"{counted(older, 'memory has', 'memories have')} a later one on the subject. Read both: if the later one "
        "replaces the older, let it supersede that one."
    )
