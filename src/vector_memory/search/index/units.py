"""All pieces of a file in memory: what they are of, what filters ask of it, and how long they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.search.index.postings import PostingLists
from vector_memory.storage.sqlite.keywords import LENGTH
from vector_memory.storage.sqlite.units import FiledMemory, PiecesState

NOWHERE = -1
"""The kind of memories that are gone."""

FIRST_CAPACITY = 1024

Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Memories by row and their pieces by entry, in the order in which they came; a value that only grows into others.

    Arrays have room behind `memory_count` and `count`, which the next value fills: what is before is never changed.
    `state`: that of the file in which it has these.

    Of memories `memory_ids`, `kinds`, `sessions`, `agents`, `tasks` (as numbers, by `names`), `iterations`, `places`
    (in the keyword index), `firsts` (the entries of their first pieces), `sizes` (numbers of pieces) and `totals` (sums
    of their lengths) are known; of pieces `ids` (those of their chunks, or of memories without), `owners` (the rows of
    their memories) and `lengths`, in terms. The first row and the first entry are of what is gone.
    """

    state: PiecesState
    memory_count: int
    memory_ids: NDArray[np.int64]
    kinds: NDArray[np.int32]
    sessions: NDArray[np.int32]
    agents: NDArray[np.int32]
    tasks: NDArray[np.int32]
    iterations: NDArray[np.int32]
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

    @classmethod
    def empty(cls, schema: int) -> Self:
        """Return no pieces."""
        nobody = np.full(1, NOWHERE, np.int32)
        nothing = np.zeros(1, np.int32)
        return cls(
            state=PiecesState(schema, 0, 0, 0),
            memory_count=1,
            memory_ids=nobody.astype(np.int64),
            kinds=nobody,
            sessions=nobody,
            agents=nobody,
            tasks=nobody,
            iterations=nobody,
            places=nobody.astype(np.int64),
            firsts=nothing,
            sizes=nothing,
            totals=nothing.astype(np.int64),
            count=1,
            ids=nobody.astype(np.int64),
            owners=nothing,
            lengths=nothing,
            names={},
        )

    def extended(self, memories: Sequence[FiledMemory], chunks: NDArray[np.int64], state: PiecesState) -> "Pieces":
        """Return these with further memories, of which `chunks` are as `storage.pieces.chunks_of` returns them.

        Raises DatabaseError if a memory has not as many pieces as the keyword index says.
        """
        if not memories:
            return replace(self, state=state)
        first, entry = self.memory_count, self.count
        lengths = [np.frombuffer(memory.lengths, LENGTH) for memory in memories]
        sizes = np.array([len(own) for own in lengths], np.int32)
        ids = piece_ids([memory.memory_id for memory in memories], sizes, chunks)

        def added(array: NDArray[np.int32], values: Sequence[int]) -> NDArray[np.int32]:
            return joined(array, first, np.array(values, np.int32))

        return replace(
            self,
            state=state,
            memory_count=first + len(memories),
            memory_ids=joined(self.memory_ids, first, np.array([memory.memory_id for memory in memories], np.int64)),
            kinds=added(self.kinds, [self._number(memory.kind) for memory in memories]),
            sessions=added(self.sessions, [self._number(memory.session_id) for memory in memories]),
            agents=added(self.agents, [self._number(memory.agent_id) for memory in memories]),
            tasks=added(self.tasks, [self._number(memory.task_code) for memory in memories]),
            iterations=added(self.iterations, [memory.session_iter for memory in memories]),
            places=joined(self.places, first, np.array([memory.place for memory in memories], np.int64)),
            firsts=joined(self.firsts, first, (entry + np.cumsum(sizes) - sizes).astype(np.int32)),
            sizes=joined(self.sizes, first, sizes),
            totals=joined(self.totals, first, np.array([own.sum() for own in lengths], np.int64)),
            count=entry + len(ids),
            ids=joined(self.ids, entry, ids),
            owners=joined(self.owners, entry, np.repeat(np.arange(first, first + len(sizes), dtype=np.int32), sizes)),
            lengths=joined(self.lengths, entry, np.concatenate(lengths).astype(np.int32)),
        )

    def without(self, memory_ids: Sequence[int]) -> "Pieces":
        """Return these without those of the memories that are here. With them go all postings that were read."""
        rows = np.flatnonzero(np.isin(self.memory_ids[: self.memory_count], memory_ids))
        if not len(rows):
            return self
        kinds = self.kinds.copy()
        kinds[rows] = NOWHERE
        return replace(self, kinds=kinds, postings=PostingLists())

    def memories_there(self) -> int:
        """Return how many memories are not gone."""
        return int(np.count_nonzero(self.kinds[: self.memory_count] != NOWHERE))

    def as_of(self, state: PiecesState) -> "Pieces | None":
        """Return these as they were in an earlier state of the file; None if that is not known any more."""
        ids = self.memory_ids[1 : self.memory_count]
        count = 1 + int(np.searchsorted(ids, state.last_memory_id, side="right"))
        is_known = (
            state.schema == self.state.schema
            and state.last_memory_id <= self.state.last_memory_id
            and bool(np.all(np.diff(ids) > 0))
            and np.count_nonzero(self.kinds[:count] != NOWHERE) == state.memories
        )
        end = self.count if count == self.memory_count else int(self.firsts[count])
        return replace(self, state=state, memory_count=count, count=end) if is_known else None

    def members(self, scope: Scope) -> Bools:
        """Tell of each memory's row whether it is in the scope, as far as the vector index knows it."""
        inside: Bools = self.kinds[: self.memory_count] != NOWHERE
        for column, wanted in (
            (self.kinds, scope.kind and str(scope.kind)),
            (self.sessions, scope.session_id),
            (self.agents, scope.agent_id),
            (self.tasks, scope.task_code),
        ):
            if wanted is not None:
                inside &= column[: self.memory_count] == self.names.get(wanted, NOWHERE)
        if scope.session_iter is not None:
            inside &= self.iterations[: self.memory_count] == scope.session_iter
        return inside

    def entries_in(self, members: Bools) -> Bools:
        """Tell of each entry whether its memory is a member."""
        inside: Bools = members[self.owners[: self.count]]
        return inside

    def named(self, entries: Rows) -> tuple[Rows, Rows]:
        """Return the ids of pieces and those of their memories."""
        return self.ids[entries], self.memory_ids[self.owners[entries]]

    def entries_of(self, memory_ids: Sequence[int]) -> dict[tuple[int, int], int]:
        """Return the entries of all pieces of memories, by the ids of memory and piece."""
        rows = np.flatnonzero(np.isin(self.memory_ids[: self.memory_count], memory_ids))
        rows = rows[self.kinds[rows] != NOWHERE]
        entries = ranges(self.firsts[rows].astype(np.int64), self.sizes[rows])
        owners = self.memory_ids[self.owners[entries]]
        pairs = zip(owners.tolist(), self.ids[entries].tolist(), strict=True)
        return dict(zip(pairs, entries.tolist(), strict=True))

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def piece_ids(memory_ids: Sequence[int], sizes: NDArray[np.int32], chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of the pieces of memories: those of their chunks or, of memories without, their own."""
    owners = np.repeat(np.array(memory_ids, np.int64), sizes)
    chunked = np.isin(owners, chunks[:, 0])
    whole = np.count_nonzero(~np.isin(memory_ids, chunks[:, 0]))
    if not np.array_equal(owners[chunked], chunks[:, 0]) or np.count_nonzero(~chunked) != whole:
        raise DatabaseError("The keyword index does not match the chunks: run `vector-memory doctor --fix`.")
    ids = owners.copy()
    ids[chunked] = chunks[:, 1]
    return ids


def ranges(firsts: NDArray[np.int64], sizes: NDArray[np.int32]) -> Rows:
    """Return the numbers of ranges, given by their first numbers and their lengths, one range after another."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(firsts - before, sizes) + np.arange(int(sizes.sum()))


def joined(array: NDArray[Number], count: int, values: NDArray[Number]) -> NDArray[Number]:
    """Return an array with `values` behind its first `count` entries: the same one as long as it has room for them.

    Memory that was never written to takes no room, so a new array is twice as large.
    """
    if count + len(values) > len(array):
        room = max(FIRST_CAPACITY, 2 * (count + len(values)))
        larger = np.empty((room, *array.shape[1:]), array.dtype)
        larger[:count] = array[:count]
        array = larger
    array[count : count + len(values)] = values
    return array
