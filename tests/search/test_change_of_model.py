"""A search never compares vectors of two models, whenever the file is changed over (`vector-memory reembed`)."""

import itertools
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from inside import database_of
from lattice import DIMENSIONS
from vector_memory.domain import Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.results.sessions import FoundChunk
from vector_memory.storage.sqlite.database import Connection
from vector_memory.store import SessionMemoryStore


@pytest.mark.parametrize("scope", [Scope("report"), Scope("report", session_id="s")], ids=["all", "session"])
@pytest.mark.parametrize("dimensions", [DIMENSIONS, 8])
@pytest.mark.parametrize("moment", range(4))
def test_a_search_during_which_the_model_is_changed_answers_by_the_old_vectors_or_refuses(
    store: SessionMemoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scope: Scope,
    dimensions: int,
    moment: int,
) -> None:
    for number in range(5):
        store.store_memory("report", f"word{number} and more of it", session_id="s")
    before = store.search_chunks("more word3", scope, Page(limit=3), mode="vector").results
    reads, read = itertools.count(), database_of(store).read

    def change_the_model_first() -> AbstractContextManager[Connection]:
        if next(reads) == moment:
            with SessionMemoryStore(tmp_path / "memory.db", store.settings, embedder=ToyEngine(dimensions)) as other:
                other.reembed()
        return read()

    monkeypatch.setattr(database_of(store), "read", change_the_model_first)
    found = answer(store, scope)
    assert found == before or "vector-memory reembed" in str(found)


def answer(store: SessionMemoryStore, scope: Scope) -> list[FoundChunk] | str:
    """Return what a search finds, or how it refuses."""
    try:
        return store.search_chunks("more word3", scope, Page(limit=3), mode="vector").results
    except EmbeddingUnavailableError as error:
        return str(error)
