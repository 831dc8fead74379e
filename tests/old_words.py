"""Memories as an earlier release left them: their words are those of their texts only.

`python old_words.py ENGINE PLACE` indexes them again, one block at a time, until it kills itself at the third.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import engine_memories
from engine_memories import ENGINES, add
from engines import execute
from vector_memory.domain import Chunk, NewMemory
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.upkeep.backfill import Backfill


def old_texts(_title: str | None, content: str, chunks: list[Chunk], *, chunked: bool) -> list[str]:
    return [chunk.text for chunk in chunks] if chunked else [content]


def add_old(storage: Storage, *memories: NewMemory) -> list[int]:
    """Store memories by the old rules, and note that they are; return their ids."""
    new_texts, engine_memories.searchable_texts = engine_memories.searchable_texts, old_texts  # type: ignore[attr-defined]
    try:
        ids = [add(storage, memory) for memory in memories]
    finally:
        engine_memories.searchable_texts = new_texts  # type: ignore[attr-defined]
    execute(storage, "update keyword_blocks set rules = 0")
    return ids


def index_again(storage: Storage) -> None:
    """Index the words again as the background of a server does."""
    unused: Any = None
    Backfill(storage, unused, unused).index_words()


def die_at_third(storage: Storage) -> None:
    index_block, indexed = KeywordIndex.index_again, []

    def index_and_die(words: KeywordIndex) -> bool:
        is_indexed = index_block(words)
        indexed.append(words)
        if len(indexed) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return is_indexed

    KeywordIndex.index_again = index_and_die  # type: ignore[method-assign]
    index_again(storage)


if __name__ == "__main__":
    die_at_third(ENGINES[sys.argv[1]](Path(sys.argv[2])))
