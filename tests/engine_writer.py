"""Adds memories in its own process, and prints their ids: `python engine_writer.py ENGINE PLACE NAME`."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine_memories import ENGINES, add, new_memory

THREADS = 3
EACH = 8
"""Memories that each thread adds."""


def write(engine: str, place: Path, name: str) -> None:
    """Add memories with several threads."""
    storage = ENGINES[engine](place)

    def add_some(thread: int) -> list[int]:
        return [add(storage, new_memory(f"{name} {thread} {number}")) for number in range(EACH)]

    with ThreadPoolExecutor(THREADS) as threads:
        print(*(number for ids in threads.map(add_some, range(THREADS)) for number in ids))
    storage.close()


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
