"""Which blocks of the keyword index may contain a term: a search reads the postings of no others.

A matrix has a bit for each slot and block. The key of a term selects two slots; both bits are 1 for each block that
contains the term, and by chance for a few others. A million passages need 8 MB, but a block of a short session needs as
much as a full one: of a file with very many sessions only the first blocks are covered.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

SLOT_BITS = 14
SLOTS = 1 << SLOT_BITS
BLOCKS_PER_GROUP = 512

MAX_BLOCKS = 16_384
"""They take 32 MB. Any later block may contain any term."""

MIN_LAG = 1_000
"""So many memories are not worth a sketch: a search reads all of their blocks."""

LAG_SHARE = 8


@dataclass(frozen=True, slots=True)
class WordSketch:
    """The terms of the memories in rows below `memory_count`. Blocks that have later memories may contain any term.

    `groups`: matrices of BLOCKS_PER_GROUP blocks, shape (SLOTS, BLOCKS_PER_GROUP / 8). Later values share them: bits
    are only ever added, so that an earlier value stays true.
    """

    memory_count: int = 1
    groups: list[NDArray[np.uint8]] = field(default_factory=list)

    def lags_behind(self, memory_count: int) -> bool:
        """Return whether enough later memories have accumulated to add them."""
        return memory_count - self.memory_count > max(MIN_LAG, self.memory_count // LAG_SHARE)

    def add(self, blocks: NDArray[np.int64], owners: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
        """Add the terms of coverable blocks: for each posting the position of its block, and the key of its term."""
        has = np.zeros((len(blocks), SLOTS), np.bool_)
        for slots in slots_of(keys):
            has[owners, slots] = True
        for block, own in zip(blocks.tolist(), has, strict=True):
            group, column = divmod(block, BLOCKS_PER_GROUP)
            while len(self.groups) <= group:
                self.groups.append(np.zeros((SLOTS, BLOCKS_PER_GROUP // 8), np.uint8))
            self.groups[group][:, column // 8] |= own.view(np.uint8) << np.uint8(column % 8)

    def covering(self, memory_count: int) -> "WordSketch":
        """Return a value for more memories, after all of their blocks were added."""
        return replace(self, memory_count=memory_count)

    def blocks_with(self, key: int, end: int) -> NDArray[np.bool_]:
        """Return for each block below `end` whether it may contain the term with this key."""
        first, second = (int(slots) for slots in slots_of(np.array(key)))
        bits = [group[first] & group[second] for group in self.groups]
        found = np.unpackbits(np.concatenate([np.empty(0, np.uint8), *bits]), bitorder="little").astype(np.bool_)
        possible = np.arange(end) >= MAX_BLOCKS
        possible[: len(found)] |= found[:end]
        return possible


def coverable(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of the blocks that a sketch may cover."""
    return blocks[blocks < MAX_BLOCKS]


def slots_of(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two slots of each key, from bits that do not overlap."""
    return keys & SLOTS - 1, keys >> SLOT_BITS & SLOTS - 1
