"""A search never compares vectors of two models, whenever the file is changed over (`vector-memory reembed`)."""

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from engines import column
from inside import database_of
from lattice import DIMENSIONS
from vector_memory.answers.models import FoundChunk
from vector_memory.domain import Page, Scope
from vector_memory.embedding.embedder import Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.sqlite.database import Connection
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import background
from waiting import eventually


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


class Interrupted(ToyEngine):
    """An engine of another model, which is interrupted at the third memory."""

    calls = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().embed(texts)


@pytest.fixture
def changing(store: SessionMemoryStore, tmp_path: Path) -> SessionMemoryStore:
    """A store of the earlier model whose memory has five reports; two have vectors of a model of another length."""
    for number in range(5):
        store.store_memory("report", f"word{number} ledger", session_id="s")
    with changed(store, tmp_path, Interrupted(8)) as other, pytest.raises(KeyboardInterrupt):
        other.reembed()
    return store


def changed(store: SessionMemoryStore, folder: Path, engine: ToyEngine) -> SessionMemoryStore:
    """Open the memory of a store with another model."""
    return SessionMemoryStore(folder / "memory.db", store.settings, embedder=engine)


REPORTS = Scope("report")
NEW = ToyEngine(8)


def found(store: SessionMemoryStore, mode: str, scope: Scope = REPORTS) -> set[int]:
    """Return the memories that a search finds."""
    return {hit.memory_id for hit in store.search_chunks("ledger word3", scope, Page(limit=9), mode=mode).results}


def test_while_the_model_is_changed_a_search_compares_the_vectors_of_its_own(
    changing: SessionMemoryStore, tmp_path: Path
) -> None:
    for scope in (REPORTS, Scope("report", session_id="s")):
        assert found(changing, "vector", scope) == {1, 2, 3, 4, 5}
        with changed(changing, tmp_path, NEW) as new:
            assert found(new, "vector", scope) == {1, 2}
            assert found(new, "keyword", scope) == {1, 2, 3, 4, 5}
            answer = new.search_chunks("ledger word3", scope, Page(limit=9))
            assert len(answer.results) == 5
            assert "3 memories in this scope still lack vectors and may be found by words only" in str(answer.message)
    assert "lack vectors" not in str(changing.search_chunks("ledger word3", REPORTS).message)


def test_what_processes_with_either_model_store_and_delete_meanwhile_is_neither_lost_nor_left(
    changing: SessionMemoryStore, tmp_path: Path
) -> None:
    by_old = changing.store_memory("report", "word6 ledger", session_id="s")
    assert "vector-memory reembed" in str(by_old.message)
    with changed(changing, tmp_path, NEW) as new:
        by_new = new.store_memory("report", "word7 ledger", session_id="s")
        assert "vector-memory reembed" not in str(by_new.message)
        new.delete_memory(1)
        assert found(new, "vector") == {2, by_new.memory_id}
        assert found(changing, "vector") == {2, 3, 4, 5}
        changing.delete_memory(2)
        assert found(changing, "keyword") == {3, 4, 5, by_old.memory_id, by_new.memory_id}
        assert "2 memories in this scope" in str(changing.search_chunks("ledger word3", REPORTS).message)
        assert new.reembed().remaining == 0
        assert found(new, "vector") == {3, 4, 5, by_old.memory_id, by_new.memory_id}
    assert "vector-memory reembed" in str(answer(changing, REPORTS))


def test_a_server_with_the_new_model_finishes_an_interrupted_change_however_much_is_left(
    changing: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.01)
    settings = changing.settings.model_copy(update={"auto_backfill_threshold": 1})
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NEW) as server:
        server.start_background_work()
        eventually(lambda: column(server, "select model from embedding_models") == ["toy"])
        assert found(server, "vector") == {1, 2, 3, 4, 5}


def test_back_with_the_earlier_model_nothing_is_computed_again(changing: SessionMemoryStore, tmp_path: Path) -> None:
    assert "nothing to do" not in changing.reembed().message
    assert found(changing, "vector") == {1, 2, 3, 4, 5}
    assert "nothing to do" in changing.reembed().message
    with changed(changing, tmp_path, NEW) as new:
        assert "vector-memory reembed" in str(answer(new, REPORTS))


def answer(store: SessionMemoryStore, scope: Scope) -> list[FoundChunk] | str:
    """Return what a search finds, or how it refuses."""
    try:
        return store.search_chunks("more word3", scope, Page(limit=3), mode="vector").results
    except EmbeddingUnavailableError as error:
        return str(error)
