"""Stores with the real model, which is loaded once, with the toy engine, and without any."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vector_memory.embedding import Embedder, EmbeddingModel, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.memories import TaggedMemories

Open = Callable[..., SessionMemoryStore]


@pytest.fixture(scope="session")
def model() -> EmbeddingModel:
    """The real model."""
    return EmbeddingModel(lambda: load_embedder(Settings()))


@pytest.fixture
def store(tmp_path: Path, model: EmbeddingModel) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db", model=model) as store:
        yield store


@pytest.fixture
def tagged(store: SessionMemoryStore) -> TaggedMemories:
    return store.tagged


@pytest.fixture
def toy_store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "toy.db", Settings(memory_limit=20), embedder=ToyEngine()) as store:
        yield store


def no_engine() -> Embedder:
    raise EmbeddingUnavailableError("There is no model here.")


@pytest.fixture
def modelless_store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    """A store whose model cannot be loaded, on the same file as `store`."""
    with SessionMemoryStore(tmp_path / "memory.db", model=EmbeddingModel(no_engine)) as store:
        yield store
