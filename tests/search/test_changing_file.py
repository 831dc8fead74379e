"""Answers from memory equal those from the tables while two processes store, delete and rebuild."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from inside import database_of, rebuild_words
from other_process import OtherProcess
from search.test_exact import WORDS, load_index, open_store
from vector_memory.domain import Page, Scope
from vector_memory.search.index import comparison, revisions, sketch
from vector_memory.search.index import loader as passage_index
from vector_memory.store import SessionMemoryStore

STEPS = 24
SCOPES = [Scope("report"), Scope("report", session_id="s1"), Scope("working_memory"), Scope("report", agent_id="a2")]


def found(store: SessionMemoryStore, query: str, scope: Scope, mode: str) -> list[tuple[int, float | None]]:
    search = store.search_chunks if scope.kind == "report" else store.search_memories
    results = search(query, scope, Page(limit=50), mode=mode).results
    return [(getattr(hit, "chunk_id", None) or hit.id, hit.score) for hit in results]


@pytest.mark.parametrize("cached", [10**6, 0], ids=["exact", "signatures"])
def test_what_two_processes_change_is_found_in_memory_as_in_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    source = random.Random(cached)
    monkeypatch.setattr(passage_index, "MAX_CACHED_BYTES", cached)
    monkeypatch.setattr(comparison, "MIN_COMPARED", 10**6)  # then nothing is estimated
    monkeypatch.setattr(passage_index, "BLOCKS_PER_READ", 3)
    monkeypatch.setattr(revisions, "MAX_BEHIND", 12)
    monkeypatch.setattr(sketch, "MIN_LAG", 3)
    monkeypatch.setattr(sketch, "BLOCKS_PER_GROUP", 8)
    path = tmp_path / "memory.db"
    ids: list[int] = []
    with open_store(path) as loaded, open_store(path) as reading, closing(OtherProcess(path)) as other:
        load_index(loaded)
        for step in range(STEPS):
            for number in range(source.choice([1, 1, 6])):
                text = f"{step} {number} " + " ".join(source.choices(WORDS, k=source.choice([3, 20, 90])))
                place = {"session_id": f"s{source.randrange(20)}", "agent_id": source.choice(["a1", "a2"])}
                kind = source.choice(["report", "working_memory"])
                if source.random() < 0.5:
                    ids.append(loaded.store_memory(kind, text, **place).memory_id)
                else:
                    ids.append(other.call("store_memory", kind, text, **place)["memory_id"])
            if source.random() < 0.4:
                other.call("delete_memory", ids.pop(source.randrange(len(ids))))
            if source.random() < 0.05:
                with database_of(loaded).write() as connection:
                    rebuild_words(connection)
            if source.random() < 0.5:  # otherwise searches and the loading thread overtake each other
                load_index(loaded)
            query = " ".join(source.choices([*WORDS, str(step)], k=2))
            for mode in ("keyword", "vector", "hybrid"):
                scope = source.choice(SCOPES)
                assert found(loaded, query, scope, mode) == found(reading, query, scope, mode), (step, query, mode)
