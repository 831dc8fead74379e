"""Texts that kill every process that embeds them: they are given up, and hold nothing else up."""

import time
from pathlib import Path

import pytest

from dying_process import BATCH, DEADLY, LEASE
from engines import address_of, column, counts, execute
from forked import Forked
from lattice import LatticeEmbedder
from other_process import SETTINGS
from test_background_vectors import GatedEmbedder, deferring, no_engine, without_vectors
from test_vector_leases import leases
from vector_memory.embedding import EmbeddingModel
from vector_memory.settings import memory_address
from vector_memory.storage.queries.pending import MAX_ATTEMPTS
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.writing import background, indexer
from waiting import eventually

DEADLY_TEXT = f"A {DEADLY} note."
LATE_DEATH = " ".join(f"word{number}" for number in range(2 * BATCH * LatticeEmbedder.tokens_per_vector)) + f" {DEADLY}"


@pytest.fixture(autouse=True)
def _as_in_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(indexer, "BATCH", BATCH)


def leave(path: Path, *texts: str, model: EmbeddingModel | None = None) -> None:
    """Store texts whose vectors nobody has begun to compute: deferred or, with a model that is missing, unpromised."""
    store = SessionMemoryStore(path, SETTINGS, model=model) if model else deferring(path, GatedEmbedder())
    with store:
        for text in texts:
            store.store_memory("working_memory", text, session_id="s")


def attempts(store: SessionMemoryStore) -> list[int]:
    return column(store, "select attempts from pending_vectors order by memory_id")


def passages(store: SessionMemoryStore) -> int:
    return counts(store)["memory_passages"]


def die(path: Path) -> None:
    """Let a process work in the background until it dies."""
    with Forked("-m", "dying_process", address_of(path)) as process:
        process.stdout.read()
    assert process.returncode == 9


@pytest.mark.parametrize("model", [None, EmbeddingModel(no_engine)], ids=["deferred", "without a model"])
def test_a_text_that_has_killed_three_processes_is_left_to_a_backfill(path: Path, model: EmbeddingModel | None) -> None:
    leave(path, DEADLY_TEXT, "First.", "Second.", model=model)
    for _ in range(MAX_ATTEMPTS):
        die(path)
    with (
        Forked("-m", "dying_process", address_of(path)),
        SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store,
    ):
        eventually(lambda: without_vectors(store) == 1)
        leave(path, "Third.")
        eventually(lambda: without_vectors(store) == 1)
        assert attempts(store) == [MAX_ATTEMPTS]
        eventually(lambda: leases(store)[0][1] < time.time())
    contents = (
        Doctor(memory_address(address_of(path)), SETTINGS, EmbeddingModel(LatticeEmbedder)).examine().parts["contents"]
    )
    (found,) = [finding for finding in contents if finding.name == "unindexed"]
    assert "1 memory lacks vectors" in found.message
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store:
        assert store.backfill_embeddings().memories_remaining == 0
        assert not leases(store)


def test_only_attempts_without_any_new_vectors_count(path: Path) -> None:
    leave(path, LATE_DEATH)
    after = []
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store:
        for _ in range(1 + MAX_ATTEMPTS):
            die(path)
            after.append((attempts(store), passages(store)))
    assert after == [([number], 2 * BATCH) for number in range(1 + MAX_ATTEMPTS)]


def test_an_attempt_of_a_process_that_ends_in_order_does_not_count(path: Path) -> None:
    leave(path, "Harmless.")
    for _ in range(1 + MAX_ATTEMPTS):
        embedder = GatedEmbedder()
        with deferring(path, embedder) as store:
            eventually(lambda store=store: attempts(store) == [1])
        embedder.gate.set()
    with deferring(path, LatticeEmbedder()) as store:
        eventually(lambda: not without_vectors(store))


def test_a_backfill_comes_last_to_texts_that_have_killed_processes(path: Path) -> None:
    leave(path, DEADLY_TEXT, "First.", "Second.")
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store:
        execute(store, "update pending_vectors set attempts = ? where memory_id = 1", MAX_ATTEMPTS)
        store.backfill_embeddings()
        assert column(store, "select memory_id from memory_passages order by id") == [2, 3, 1]
