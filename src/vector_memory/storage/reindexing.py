"""Indexes the words of blocks again that were indexed by other rules (`terms.RULES`).

A few blocks at a time are replaced: the words are prepared outside of transactions, and each transaction is short. So
other processes are not held up, several may do this at once, and one that ends before it is done loses nothing: the
next one goes on. A unit keeps its place.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import Block, PlacedWords, Words, indexed, rows_to_add

CHARACTERS_AT_ONCE = 500_000
"""Of the texts whose words are replaced in one transaction; one block may have more."""

BLOCKS_AT_ONCE = 500


class OldBlocks(Protocol):
    """The blocks of a keyword index by other rules, in one transaction. `replace` and `keep` need one that writes."""

    def blocks(self, limit: int) -> list[int]:
        """Return the ids of the first of them."""

    def is_old(self, block_id: int) -> bool:
        """Return whether a block is still there and one of them."""

    def memories_in(self, block_id: int) -> list[PlacedWords]:
        """Return where the memories of a block are."""

    def texts_of(self, memory_id: int) -> list[str]:
        """Return the searchable texts of a memory's units. Raises DamagedError."""

    def replace(self, block_id: int, memories: Sequence[PlacedWords], rows: Mapping[int, bytes]) -> None:
        """Replace the lengths of a block's units and its rows of postings; they are by the rules of this release."""

    def keep(self, block_id: int) -> None:
        """Count a block as one of this release, as it is."""


Transaction = Callable[[], AbstractContextManager[OldBlocks]]


def index_again(read: Transaction, write: Transaction, seconds: float = math.inf) -> None:
    """Replace all blocks by other rules; begin nothing after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with read() as words:
            texts = next_texts(words)
        if not texts:
            return
        prepared = {
            block_id: {memory_id: indexed(own) for memory_id, own in memories.items()}
            for block_id, memories in texts.items()
        }
        with write() as words:
            for block_id, known in prepared.items():
                if words.is_old(block_id):  # another process may have been faster
                    replace_block(words, block_id, known)


def next_texts(words: OldBlocks) -> dict[int, dict[int, list[str]]]:
    """Return the texts of the next blocks by other rules, as many as are replaced at once, by block and memory."""
    found: dict[int, dict[int, list[str]]] = {}
    length = 0
    for block_id in words.blocks(BLOCKS_AT_ONCE):
        if length >= CHARACTERS_AT_ONCE:
            break
        found[block_id] = {}
        with suppress(DamagedError):  # `replace_block` finds it again
            for memory in words.memories_in(block_id):
                texts = found[block_id][memory.memory_id] = words.texts_of(memory.memory_id)
                length += sum(map(len, texts))
    return found


def replace_block(words: OldBlocks, block_id: int, known: Mapping[int, Words]) -> None:
    """Replace the words of a block. `known`: those of its memories, unless they were added meanwhile.

    A block with a damaged memory stays as it is: `vector-memory doctor` finds it.
    """
    try:
        memories = words.memories_in(block_id)
        new = [known.get(memory.memory_id) or indexed(words.texts_of(memory.memory_id)) for memory in memories]
    except DamagedError:
        words.keep(block_id)
        return
    if any(len(own.lengths) != len(memory.lengths) for own, memory in zip(new, memories, strict=True)):
        words.keep(block_id)
        return
    rows = defaultdict[int, bytes](bytes)
    for own, memory in zip(new, memories, strict=True):
        for number, postings in rows_to_add(own, Block(block_id, memory.first)):
            rows[number] += postings
    placed = [memory._replace(lengths=own.lengths) for own, memory in zip(new, memories, strict=True)]
    words.replace(block_id, placed, rows)
