"""Indexes the words of blocks again that were indexed by other rules (`terms.RULES`).

A few blocks at a time are replaced: the words are prepared outside of transactions, and each transaction is short. So
other processes are not held up, several may do this at once, and one that ends before it is done loses nothing: the
next one goes on. A unit keeps its place.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import Block, Words, indexed, rows_to_add
from vector_memory.storage.queries.insert import KeywordQueries
from vector_memory.storage.queries.keywords import KeywordIndex

CHARACTERS_AT_ONCE = 500_000
"""Of the texts whose words are replaced in one transaction; one block may have more."""

BLOCKS_AT_ONCE = 500


Transaction = Callable[[], AbstractContextManager[KeywordQueries]]


def index_again(read: Transaction, write: Transaction, seconds: float = math.inf) -> None:
    """Replace all blocks by other rules; begin nothing after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with read() as reader:
            texts = next_texts(reader.keywords)
        if not texts:
            return
        prepared = {
            block_id: {memory_id: indexed(own) for memory_id, own in memories.items()}
            for block_id, memories in texts.items()
        }
        with write() as writer:
            for block_id, known in prepared.items():
                if writer.keywords.is_old(block_id):  # another process may have been faster
                    replace_block(writer.keywords, block_id, known)


def next_texts(words: KeywordIndex) -> dict[int, dict[int, list[str]]]:
    """Return the texts of the next blocks by other rules, as many as are replaced at once, by block and memory."""
    found: dict[int, dict[int, list[str]]] = {}
    length = 0
    for block_id in words.old_blocks(BLOCKS_AT_ONCE):
        if length >= CHARACTERS_AT_ONCE:
            break
        found[block_id] = {}
        with suppress(DamagedError):  # `replace_block` finds it again
            for memory in words.placed_in(block_id):
                texts = found[block_id][memory.memory_id] = words.texts_of(memory.memory_id)
                length += sum(map(len, texts))
    return found


def replace_block(words: KeywordIndex, block_id: int, known: Mapping[int, Words]) -> None:
    """Replace the words of a block. `known`: those of its memories, unless they were added meanwhile.

    A block with a damaged memory stays as it is: `vector-memory doctor` finds it.
    """
    try:
        memories = words.placed_in(block_id)
        new = [known.get(memory.memory_id) or indexed(words.texts_of(memory.memory_id)) for memory in memories]
    except DamagedError:
        words.keep_block(block_id)
        return
    if any(len(own.lengths) != len(memory.lengths) for own, memory in zip(new, memories, strict=True)):
        words.keep_block(block_id)
        return
    rows = defaultdict[int, bytes](bytes)
    for own, memory in zip(new, memories, strict=True):
        for row in rows_to_add(own, Block(block_id, memory.first_unit)):
            rows[row["id"]] += row["postings"]
    placed = [memory._replace(lengths=own.lengths) for own, memory in zip(new, memories, strict=True)]
    words.replace_block(block_id, placed, rows)
