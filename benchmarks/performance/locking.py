"""How long storing a very long report holds the write lock, in processor time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from timing import Figures, summary

from vector_memory.domain import MemoryKind, NewMemory
from vector_memory.embedding import Embedder, EmbeddingModel, Vectors, load_embedder
from vector_memory.embedding.embedder import Encoded
from vector_memory.embedding.token_states import bytes_per_state
from vector_memory.settings import Settings
from vector_memory.storage.postings import words_of
from vector_memory.storage.records import Derived, History
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.writing.indexer import Indexer

PROSE, DENSE = 480_000, 400_000
"""Characters; those of dense text make 4,000 passages."""

RUNS = 9
KIND = MemoryKind.REPORT
NOW = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class RandomVectors:
    """The real engine's tokens with meaningless vectors: writing them takes as long, computing them no time."""

    engine: Embedder

    def __getattr__(self, name: str) -> Any:
        """Return what the engine has."""
        return getattr(self.engine, name)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, the same for the same number of texts."""
        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), self.fingerprint.dimensions))
        units: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return units

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors with states of 60 tokens for each text."""
        states = np.random.default_rng(len(texts)).bytes(60 * bytes_per_state(self.fingerprint.dimensions))
        return Encoded(self.embed(texts), [states] * len(texts))


def measure(path: Path, documents: Path) -> dict[str, Figures]:
    """Store reports of prose and of Chinese characters at random; ms up to the commit and its checkpoint.

    `documents`: the folder of Markdown that the prose is taken from; if it has not enough, it comes again.
    """
    return {name: held(path.with_suffix(f".{name}"), text) for name, text in texts(documents).items()}


def texts(documents: Path) -> dict[str, str]:
    """Return a text of words, and one of as many passages as so many characters can have."""
    prose = "\n\n".join(file.read_text(errors="replace") for file in sorted(documents.rglob("*.md")))
    characters = np.random.default_rng(0).integers(ord("一"), ord("一") + 8_000, DENSE)
    return {
        "prose": (prose * (PROSE // len(prose) + 1))[:PROSE],
        "dense": "".join(map(chr, characters.tolist())),
    }


def held(path: Path, text: str) -> Figures:
    """Store one text again and again; the first time does not count."""
    settings = Settings()
    indexer = Indexer(EmbeddingModel(lambda: RandomVectors(load_embedder(settings))), settings)
    chunks = indexer.chunk(KIND, text)
    embedded = indexer.embed(indexer.unit_texts(KIND, None, text, chunks))
    database = Database(path, dimensions=settings.embedding_dim)
    storage = SqliteStorage(database)
    words = words_of(None, text, chunks, chunked=True)
    derived = Derived(chunks=chunks, words=words, enriched=True, embedded=embedded)
    memory = NewMemory(kind=KIND, content=text, agent_id="agent", session_id="session")
    times = [once(storage, memory, derived, str(number)) for number in range(RUNS + 1)]
    storage.close()
    return summary(times[1:]) | {"chunks": len(chunks), "passages": len(embedded.passages)}


def once(storage: SqliteStorage, memory: NewMemory, derived: Derived, content_hash: str) -> float:
    """Return the processor time of the transaction that adds a memory."""
    begin = time.thread_time()
    with storage.write() as writer:
        writer.find_duplicate(memory, content_hash)
        writer.add_memory(memory, derived, content_hash=content_hash, history=History(NOW, NOW, NOW))
    return (time.thread_time() - begin) * 1000
