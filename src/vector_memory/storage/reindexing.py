"""Indexes the words of blocks again that were indexed by other rules (`terms.RULES`).

A few blocks at a time are replaced: the words are prepared outside of transactions, and each transaction is short. So
other processes are not held up, several may do this at once, and one that ends before it is done loses nothing: the
next one goes on. A unit keeps its place.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from vector_memory.storage.postings import LENGTH, Block, Words, indexed, rows_to_add
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
                replace_block(writer.keywords, block_id, known)


def next_texts(words: KeywordIndex) -> dict[int, dict[int, list[str]]]:
    """Return the texts of the next blocks by other rules, as many as are replaced at once, by block and memory."""
    found: dict[int, dict[int, list[str]]] = {}
    length = 0
    for block_id in words.old_blocks(BLOCKS_AT_ONCE):
        if length >= CHARACTERS_AT_ONCE:
            break
        found[block_id] = {}
        contents = words.contents_of(block_id)
        for memory_id in contents.spans() if contents is not None and contents.is_sound else ():
            texts = found[block_id][memory_id] = texts_of(words, memory_id)
            length += sum(map(len, texts))
    return found


def replace_block(words: KeywordIndex, block_id: int, known: Mapping[int, Words]) -> None:
    """Replace the words of a block, unless another process was faster. `known`: those of its memories.

    A damaged block stays as it is: `vector-memory doctor` finds it.
    """
    contents = words.contents_of(block_id)
    if contents is None:
        return
    if not contents.is_sound:
        words.keep_block(block_id)
        return
    lengths, rows = np.frombuffer(contents.lengths, LENGTH).copy(), defaultdict[int, bytes](bytes)
    for memory_id, span in contents.spans().items():
        own = known.get(memory_id) or indexed(texts_of(words, memory_id))  # it may have been added meanwhile
        if own.units != len(span):
            words.keep_block(block_id)
            return
        lengths[span.start : span.stop] = np.frombuffer(own.lengths, LENGTH)
        for row in rows_to_add(own, Block(block_id, span.start)):
            rows[row["id"]] += row["postings"]
    words.replace_block(block_id, contents._replace(lengths=lengths.tobytes()), rows)


def texts_of(words: KeywordIndex, memory_id: int) -> list[str]:
    """Return the searchable texts of the units of a memory."""
    return [unit.text for unit in words.units_of(memory_id)]
