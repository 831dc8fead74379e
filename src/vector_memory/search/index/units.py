"""All units of a memory file, in memory: their memories, the fields that filters use, and their lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.domain.times import microseconds
from vector_memory.errors import DatabaseError
from vector_memory.search.index.lists import PostingLists
from vector_memory.search.index.sketch import WordSketch
from vector_memory.storage.queries.feed import IndexedMemory, Revision

ABSENT = -1
"""The kind of removed memories, and the number of names that no memory has."""

MIN_CAPACITY = 1024

Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]
Item = TypeVar("Item", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Units:
    """Memories by row and their units by entry, in the order in which they were stored. A value that is never changed.

    Arrays have free capacity beyond `memory_count` and `count`, which the next value fills, so values share arrays.
    `revision`: the revision of the file that these units belong to.

    For memories: `memory_ids`, `kinds`, `sessions`, `agents` and `tasks` (as numbers, see `names`), `iterations`,
    `times` (when they were created, in microseconds since 1970), `places` (in the keyword index), `firsts` (the entries
    of their first units), `sizes` (numbers of units) and `totals` (sums of unit lengths). For units: `ids` (of their
    chunks, or of memories that are not chunked), `owners` (the rows of their memories) and `lengths` (in terms). Row 0
    and entry 0 stand for removed memories and units.
    """

    revision: Revision
    memory_count: int
    memory_ids: NDArray[np.int64]
    kinds: NDArray[np.int32]
    sessions: NDArray[np.int32]
    agents: NDArray[np.int32]
    tasks: NDArray[np.int32]
    iterations: NDArray[np.int32]
    times: NDArray[np.int64]
    places: NDArray[np.int64]
    firsts: NDArray[np.int32]
    sizes: NDArray[np.int32]
    totals: NDArray[np.int64]
    count: int
    ids: NDArray[np.int64]
    owners: NDArray[np.int32]
    lengths: NDArray[np.int32]
    names: dict[str, int]
    postings: PostingLists = field(default_factory=PostingLists)
    sketch: WordSketch = field(default_factory=WordSketch)

    @classmethod
    def empty(cls, epoch: int) -> Self:
        """Return a value without units."""
        absent = np.full(1, ABSENT, np.int32)
        zero = np.zeros(1, np.int32)
        return cls(
            revision=Revision(epoch, 0, 0, 0, 0),
            memory_count=1,
            memory_ids=absent.astype(np.int64),
            kinds=absent,
            sessions=absent,
            agents=absent,
            tasks=absent,
            iterations=absent,
            times=absent.astype(np.int64),
            places=absent.astype(np.int64),
            firsts=zero,
            sizes=zero,
            totals=zero.astype(np.int64),
            count=1,
            ids=absent.astype(np.int64),
            owners=zero,
            lengths=zero,
            names={},
        )

    def extended(self, memories: Sequence[IndexedMemory], chunks: NDArray[np.int64], revision: Revision) -> "Units":
        """Return a copy with further memories; `chunks` is the result of `IndexFeed.chunks_of` for them.

        Raises DatabaseError if the number of units of a memory differs from that in the keyword index.
        """
        if not memories:
            return replace(self, revision=revision)
        first, entry = self.memory_count, self.count
        lengths = [memory.lengths for memory in memories]
        sizes = np.array([len(own) for own in lengths], np.int32)
        ids = unit_ids([memory.memory_id for memory in memories], sizes, chunks)

        def added(array: NDArray[np.int32], values: Sequence[int]) -> NDArray[np.int32]:
            return joined(array, first, np.array(values, np.int32))

        return replace(
            self,
            revision=revision,
            memory_count=first + len(memories),
            memory_ids=joined(self.memory_ids, first, np.array([memory.memory_id for memory in memories], np.int64)),
            kinds=added(self.kinds, [self._number(memory.kind) for memory in memories]),
            sessions=added(self.sessions, [self._number(memory.session_id) for memory in memories]),
            agents=added(self.agents, [self._number(memory.agent_id) for memory in memories]),
            tasks=added(self.tasks, [self._number(memory.task_code) for memory in memories]),
            iterations=added(self.iterations, [memory.session_iter for memory in memories]),
            times=joined(
                self.times, first, np.array([microseconds(memory.created_at) for memory in memories], np.int64)
            ),
            places=joined(self.places, first, np.array([memory.place for memory in memories], np.int64)),
            firsts=joined(self.firsts, first, (entry + np.cumsum(sizes) - sizes).astype(np.int32)),
            sizes=joined(self.sizes, first, sizes),
            totals=joined(self.totals, first, np.array([own.sum() for own in lengths], np.int64)),
            count=entry + len(ids),
            ids=joined(self.ids, entry, ids),
            owners=joined(self.owners, entry, np.repeat(np.arange(first, first + len(sizes), dtype=np.int32), sizes)),
            lengths=joined(self.lengths, entry, np.concatenate(lengths).astype(np.int32)),
        )

    def without(self, memory_ids: Sequence[int]) -> "Units":
        """Return a copy without the units of these memories, and with an empty cache of postings."""
        rows = np.flatnonzero(np.isin(self.memory_ids[: self.memory_count], memory_ids))
        if not len(rows):
            return self
        kinds = self.kinds.copy()
        kinds[rows] = ABSENT
        return replace(self, kinds=kinds, postings=PostingLists())

    def present(self) -> NDArray[np.int64]:
        """Return the ids of the memories that were not removed, in the order of their rows."""
        there: NDArray[np.int64] = self.memory_ids[: self.memory_count][self.kinds[: self.memory_count] != ABSENT]
        return there

    def latest_sessions(self) -> list[str]:
        """Return the names of the sessions, those with the latest memories first."""
        there = self.kinds[: self.memory_count] != ABSENT
        numbers, last = np.unique(self.sessions[: self.memory_count][there][::-1], return_index=True)
        names = list(self.names)
        return [name for number in numbers[np.argsort(last)].tolist() if (name := names[number])]

    def as_of(self, revision: Revision) -> "Units | None":
        """Return the units as of an earlier revision of the file; None if they are no longer known."""
        now, ids = self.revision, self.memory_ids[1 : self.memory_count]
        if (now.epoch, now.removals) != (revision.epoch, revision.removals) or not np.all(np.diff(ids) > 0):
            return None
        count = 1 + int(np.searchsorted(ids, revision.last_memory_id, side="right"))
        end = self.count if count == self.memory_count else int(self.firsts[count])
        return replace(self, revision=revision, memory_count=count, count=end)

    def members(self, scope: Scope) -> Bools:
        """Return for each memory row whether it is in the scope, according to the columns that are stored here."""
        inside: Bools = self.kinds[: self.memory_count] != ABSENT
        for column, wanted in (
            (self.kinds, scope.kind and str(scope.kind)),
            (self.sessions, scope.session_id),
            (self.agents, scope.agent_id),
            (self.tasks, scope.task_code),
        ):
            if wanted is not None:
                inside &= column[: self.memory_count] == self.names.get(wanted, ABSENT)
        if scope.session_iter is not None:
            inside &= self.iterations[: self.memory_count] == scope.session_iter
        if scope.created_after is not None:
            inside &= self.times[: self.memory_count] >= microseconds(scope.created_after)
        if scope.created_before is not None:
            inside &= self.times[: self.memory_count] <= microseconds(scope.created_before)
        if scope.after_id is not None:
            inside &= self.memory_ids[: self.memory_count] > scope.after_id
        return inside

    @staticmethod
    def knows(scope: Scope) -> bool:
        """Return whether the columns stored here cover all filters of the scope."""
        others = (scope.category, scope.own_agent_id, scope.sessions)
        return not scope.tags and all(value is None for value in others)

    def entries_in(self, members: Bools) -> Bools:
        """Return for each entry whether its memory is a member."""
        inside: Bools = members[self.owners[: self.count]]
        return inside

    def ids_of(self, entries: Rows) -> tuple[Rows, Rows]:
        """Return the ids of units and of their memories."""
        return self.ids[entries], self.memory_ids[self.owners[entries]]

    def entries_of(self, memory_ids: Sequence[int]) -> dict[tuple[int, int], int]:
        """Return the entries of all units of memories, by memory id and unit id."""
        rows = np.flatnonzero(np.isin(self.memory_ids[: self.memory_count], memory_ids))
        rows = rows[self.kinds[rows] != ABSENT]
        entries = ranges(self.firsts[rows].astype(np.int64), self.sizes[rows])
        owners = self.memory_ids[self.owners[entries]]
        pairs = zip(owners.tolist(), self.ids[entries].tolist(), strict=True)
        return dict(zip(pairs, entries.tolist(), strict=True))

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def unit_ids(memory_ids: Sequence[int], sizes: NDArray[np.int32], chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of the units of memories: those of their chunks, or their own if they are not chunked."""
    owners = np.repeat(np.array(memory_ids, np.int64), sizes)
    chunked = np.isin(owners, chunks[:, 0])
    whole = np.count_nonzero(~np.isin(memory_ids, chunks[:, 0]))
    if not np.array_equal(owners[chunked], chunks[:, 0]) or np.count_nonzero(~chunked) != whole:
        raise DatabaseError("The keyword index does not match the chunks: run `vector-memory doctor --fix`.")
    ids = owners.copy()
    ids[chunked] = chunks[:, 1]
    return ids


def ranges(firsts: NDArray[np.int64], sizes: NDArray[np.int32]) -> Rows:
    """Return the concatenation of ranges, given their first numbers and lengths."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(firsts - before, sizes) + np.arange(int(sizes.sum()))


def joined(array: NDArray[Item], count: int, values: NDArray[Item]) -> NDArray[Item]:
    """Return an array whose first `count` items are followed by `values`: the same array if it has the capacity.

    A new array is twice as large as needed: memory that is never written to costs zero.
    """
    if count + len(values) > len(array):
        room = max(MIN_CAPACITY, 2 * (count + len(values)))
        larger = np.empty((room, *array.shape[1:]), array.dtype)
        larger[:count] = array[:count]
        array = larger
    array[count : count + len(values)] = values
    return array
