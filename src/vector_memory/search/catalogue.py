"""All passages of a file in memory: what they are of, what filters ask of it, and a signature of each vector.

A signature has one bit for each number of a vector: whether it is above 0. The more bits of two signatures are equal,
the nearer their vectors are, as a rule (Charikar 2002), so that a million vectors need 48 MB in place of 1.5 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.passages import Place, PlacedPassage
from vector_memory.values import Scope

WORD = 64
BLOCK = 65_536
"""Signatures compared at a time: what is between the steps stays in the processor's cache."""

SIFTED = 4
"""So many times as many signatures are compared a second time as are wanted in the end."""

NOWHERE = -1
"""The kind of memories that are gone."""

FIRST_CAPACITY = 1024

Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Passages by their row, which is their place in the order of their ids; a value that only grows into others.

    Arrays have room behind `count` and `memory_count`, which the next value fills: what is before is never moved nor
    changed, but for passages and memories that are gone. `last_id`: passages up to this id are here.

    `ids` are the passages' ids; `owners` the rows of their memories; `signatures` one array for each 64 bits.
    Of memories `memory_ids`, `kinds`, `sessions`, `agents`, `tasks` (as numbers, by `names`) and `iterations` are
    known; one whose passages came at different times has several rows. The first row is that of passages that are gone.
    """

    schema: int
    dimensions: int
    last_id: int
    count: int
    ids: NDArray[np.int64]
    owners: NDArray[np.int32]
    signatures: tuple[NDArray[np.uint64], ...]
    memory_count: int
    memory_ids: NDArray[np.int64]
    kinds: NDArray[np.int32]
    sessions: NDArray[np.int32]
    agents: NDArray[np.int32]
    tasks: NDArray[np.int32]
    iterations: NDArray[np.int32]
    names: dict[str, int]

    @classmethod
    def empty(cls, schema: int, dimensions: int) -> Self:
        """Return a catalogue without passages."""
        nobody = np.full(1, NOWHERE, np.int32)
        return cls(
            schema=schema,
            dimensions=dimensions,
            last_id=0,
            count=0,
            ids=np.empty(0, np.int64),
            owners=np.empty(0, np.int32),
            signatures=tuple(np.empty(0, np.uint64) for _ in range(-(-dimensions // WORD))),
            memory_count=1,
            memory_ids=nobody.astype(np.int64),
            kinds=nobody,
            sessions=nobody,
            agents=nobody,
            tasks=nobody,
            iterations=nobody,
            names={},
        )

    def extended(
        self, passages: Sequence[PlacedPassage], vectors: Vectors, places: Sequence[Place], last_id: int
    ) -> "Catalogue":
        """Return a catalogue with further passages, in the order of their ids, which are above those of all others."""
        first = self.memory_count
        rows = {place.memory_id: row for row, place in enumerate(places, first)}
        bits = signatures_of(vectors)

        def added(array: NDArray[np.int32], values: Sequence[int]) -> NDArray[np.int32]:
            return joined(array, first, np.array(values, np.int32))

        return replace(
            self,
            last_id=last_id,
            count=self.count + len(passages),
            ids=joined(self.ids, self.count, np.array([passage.id for passage in passages], np.int64)),
            owners=joined(
                self.owners, self.count, np.array([rows[passage.memory_id] for passage in passages], np.int32)
            ),
            signatures=tuple(joined(word, self.count, bits[:, i]) for i, word in enumerate(self.signatures)),
            memory_count=first + len(places),
            memory_ids=joined(self.memory_ids, first, np.array([place.memory_id for place in places], np.int64)),
            kinds=added(self.kinds, [self._number(place.kind) for place in places]),
            sessions=added(self.sessions, [self._number(place.session_id) for place in places]),
            agents=added(self.agents, [self._number(place.agent_id) for place in places]),
            tasks=added(self.tasks, [self._number(place.task_code) for place in places]),
            iterations=added(self.iterations, [place.session_iter for place in places]),
        )

    def up_to(self, passage_id: int) -> int:
        """Return the number of passages up to this id."""
        return int(np.searchsorted(self.ids[: self.count], passage_id, side="right"))

    def members(self, scope: Scope) -> Bools:
        """Tell of each memory's row whether it is in the scope; category and tags are not known here."""
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

    def rows_in(self, session_id: str | None, first: int = 0) -> Rows:
        """Return the rows, from `first` on, of the passages of a session, or with None of all."""
        if session_id is None:
            return np.arange(first, self.count)
        number = self.names.get(session_id, NOWHERE)
        return first + np.flatnonzero(self.sessions[self.owners[first : self.count]] == number)

    def rows_of(self, passage_ids: NDArray[np.int64]) -> Rows:
        """Return the rows of passages that are here, which is not checked."""
        return np.searchsorted(self.ids[: self.count], passage_ids)

    def forget(self, passage_ids: Sequence[int]) -> None:
        """Note that passages are gone."""
        self.owners[self.rows_of(np.array(passage_ids, np.int64))] = 0

    def forget_memories_but(self, memory_ids: Sequence[int]) -> None:
        """Note that all other memories are gone, with their passages."""
        gone = ~np.isin(self.memory_ids[: self.memory_count], np.array(memory_ids, np.int64))
        self.kinds[np.flatnonzero(gone)] = NOWHERE

    def likeliest(self, rows: Rows, query: Vectors, limit: int) -> Rows:
        """Return of the rows, at least SIFTED x `limit`, the `limit` that are likeliest to be nearest to the query.

        Signatures are compared twice: those that differ in the fewest bits from that of the query once more with the
        numbers of the query itself, each added or subtracted as the signature's bit says.
        """
        chosen = rows[self._with_fewest_unequal_bits(rows, query, SIFTED * limit)]
        words = np.stack([word[chosen] for word in self.signatures], axis=1)
        signs = np.unpackbits(words.view(np.uint8), axis=1, count=self.dimensions)
        sums = np.vecdot(signs.astype(np.float32), query)
        nearest: Rows = chosen[np.argpartition(-sums, limit)[:limit]]
        return nearest

    def _with_fewest_unequal_bits(self, rows: Rows, query: Vectors, limit: int) -> Rows:
        """Return places in `rows`."""
        signature = signatures_of(query.reshape(1, -1))[0]
        if len(rows) * 4 > self.count:
            differences = unequal_bits([word[: self.count] for word in self.signatures], signature)[rows]
        else:
            differences = unequal_bits([word[rows] for word in self.signatures], signature)
        numbers = np.cumsum(np.bincount(differences))
        last = int(np.searchsorted(numbers, limit))
        nearer, as_near = np.flatnonzero(differences < last), np.flatnonzero(differences == last)
        return np.concatenate([nearer, as_near[: limit - len(nearer)]])

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def signatures_of(vectors: Vectors) -> NDArray[np.uint64]:
    """Return the signatures of vectors, shape (vectors, 64-bit words)."""
    packed = np.packbits(vectors > 0, axis=1)
    padding = -packed.shape[1] % (WORD // 8)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, padding)))).view(np.uint64)


def unequal_bits(words: Sequence[NDArray[np.uint64]], signature: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return in how many bits each signature, of which the words are given one after another, is not the given one."""
    differences = np.zeros(len(words[0]), np.uint16)
    mixed, counted = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint8)
    for start in range(0, len(differences), BLOCK):
        total = differences[start : start + BLOCK]
        for word, wanted in zip(words, signature, strict=True):
            unequal = np.bitwise_xor(word[start : start + BLOCK], wanted, out=mixed[: len(total)])
            total += np.bitwise_count(unequal, out=counted[: len(total)])
    return differences


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
