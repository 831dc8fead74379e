"""What the stores of these tests do: numbered memories, stored, found and deleted, with a word before and after each.

`tell` is called with what is about to be done and, when the call has returned, with what was done: an acknowledgement.
"""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

Tell = Callable[..., None]

KINDS = (MemoryKind.REPORT, MemoryKind.REPORT_OBSERVATION, MemoryKind.WORKING_MEMORY, MemoryKind.KNOWLEDGE_BASE)


def open_store(path: Path, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> SessionMemoryStore:
    """Open a store that needs no model and cuts small chunks."""
    settings = Settings(
        embedding_model="toy",
        embedding_dim=DIMENSIONS,
        default_chunk_size=32,
        default_chunk_overlap=8,
        sqlite_synchronous=synchronous,
    )
    return SessionMemoryStore(path, settings, embedder=LatticeEmbedder())


def content(number: int) -> str:
    """Return the text of a memory: one to four sections, in more than one script."""
    sections = [f"## Part {part}\n\n{f'naïve {number} 数据 {part} 🙂 ' * 6}" for part in range(1 + number % 4)]
    return f"# Memory {number}\n\n" + "\n\n".join(sections)


def memory(number: int) -> dict[str, Any]:
    """Return the parameters of `store_memory` for a memory; every fourth is of the same kind."""
    kind = KINDS[number % len(KINDS)]
    place = {} if kind == MemoryKind.KNOWLEDGE_BASE else {"session_id": f"s{number % 3}", "session_iter": 1}
    return {"memory_type": kind, "content": content(number), "agent_id": "a", "title": f"T{number}", **place}


def store_one(store: SessionMemoryStore, number: int, tell: Tell) -> int:
    """Store a memory and return its id."""
    tell("storing", number)
    memory_id = store.store_memory(**memory(number)).memory_id
    assert memory_id is not None
    tell("stored", number, memory_id)
    return memory_id


def delete_one(store: SessionMemoryStore, memory_id: int, tell: Tell) -> None:
    """Delete a memory."""
    tell("deleting", memory_id)
    store.delete_memory(memory_id)
    tell("deleted", memory_id)


def search(store: SessionMemoryStore, number: int) -> int:
    """Look for the text of a memory among the reports and return how many chunks were found."""
    return store.search_chunks(content(number), Scope(MemoryKind.REPORT), Page(limit=5)).total_results


def work(store: SessionMemoryStore, numbers: Iterable[int], source: random.Random, tell: Tell) -> None:
    """Store each memory; search after some, and delete one after a quarter of them."""
    live: list[int] = []
    for number in numbers:
        live.append(store_one(store, number, tell))
        if source.random() < 0.25:
            search(store, number)
        if source.random() < 0.25:
            delete_one(store, live.pop(source.randrange(len(live))), tell)
