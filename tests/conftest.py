"""Stores that need no model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def settings() -> Settings:
    """Small chunks, so that short texts have several."""
    return Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> Iterator[SessionMemoryStore]:
    """An open store; a token is a word."""
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as opened:
        yield opened
