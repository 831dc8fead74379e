"""Who computes the vectors that follow a receipt, when several processes could, and who waits for them."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engines import address_of, execute, writer_of
from inside import storage_of
from lattice import LatticeEmbedder
from other_process import SETTINGS
from test_background_vectors import DOCUMENT, REPORTS, GatedEmbedder, deferring, passages, without_vectors
from vector_memory.domain import Fingerprint
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError
from vector_memory.search import retrieval
from vector_memory.settings import memory_address
from vector_memory.storage.base import Writer
from vector_memory.storage.records import Lease
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.writing import background
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.indexer import BATCH
from waiting import eventually

LEASE = 2.0
"""It is renewed after half of it: a busy machine may be late by a second."""


@pytest.fixture
def embedder() -> Iterator[GatedEmbedder]:
    gated = GatedEmbedder()
    yield gated
    gated.gate.set()


@pytest.fixture
def opened(path: Path, embedder: GatedEmbedder) -> Iterator[SessionMemoryStore]:
    with deferring(path, embedder) as store:
        yield store


class OtherModel(LatticeEmbedder):
    """A model whose vectors cannot be compared with those of the lattice."""

    fingerprint = Fingerprint("other", LatticeEmbedder.fingerprint.dimensions, "exact", "test")


def leases(store: SessionMemoryStore) -> list[tuple[str, float]]:
    """Return who holds the leases of the file, and until when."""
    return execute(store, "select owner, leased_until from pending_vectors order by memory_id")


def abandon(store: SessionMemoryStore, text: str, until: float = 0.0) -> int:
    """Store a memory as a process does that is killed before it has computed the vectors."""
    memory_id = store.store_memory("report", text, session_id="s").memory_id
    lose_vectors(store, memory_id, until)
    return memory_id


def lose_vectors(store: SessionMemoryStore, memory_id: int, until: float) -> None:
    """Leave a memory without vectors, which a process that was killed has promised for a time."""
    execute(store, "insert into pending_vectors values (?, 'killed', ?, 0, 0)", memory_id, until)
    execute(store, "delete from memory_passages where memory_id = ?", memory_id)
    execute(store, "update session_memories set embedding_model_id = null where id = ?", memory_id)


def test_nobody_takes_over_what_a_process_embeds_for_longer_than_a_lease(
    path: Path, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", LEASE)
    with deferring(path, embedder) as opened:
        memory_id = opened.store_memory("report", DOCUMENT, session_id="s").memory_id
        ((owner, until),) = leases(opened)
        with deferring(path, LatticeEmbedder()):
            eventually(lambda: not leases(opened) or leases(opened)[0][1] > until + LEASE)
            assert [holder for holder, _ in leases(opened)] == [owner]
            assert not passages(opened, memory_id)


def test_only_the_process_that_gets_the_lease_computes_what_was_left_behind(
    path: Path, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def take_too_late(writer: Writer, lease: Lease) -> None:
        take_over(writer, lease._replace(owner="faster", until=lease.until + 10))
        take_over(writer, lease)
        asked.set()

    embedder.gate.set()
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as earlier:
        abandon(earlier, "Left behind.")
        writer_class = writer_of(earlier)
    take_over = writer_class.take_over
    monkeypatch.setattr(writer_class, "take_over", take_too_late)
    with deferring(path, embedder) as late:
        assert asked.wait(60)
        monkeypatch.undo()
        kept = late.store_memory("report", "Its own.", session_id="s").memory_id
        eventually(lambda: passages(late, kept))
        assert not any("Left behind" in text for text in embedder.embedded)


@pytest.mark.usefixtures("_short_rounds")
def test_a_process_whose_model_cannot_be_used_takes_nothing_over(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", background.logger.name)
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as earlier:
        earlier.store_memory("report", "Something with vectors.", session_id="s")
        abandon(earlier, "Left behind.")
    with deferring(path, OtherModel()) as other:
        with SessionMemoryStore(path, SETTINGS, read_only=True) as observer:
            before = storage_of(observer).version()
            eventually(lambda: caplog.text.count("Vectors were not computed yet") > 1)
            assert storage_of(observer).version() == before
        assert leases(other) == [("killed", 0.0)]


def test_what_waits_for_its_vectors_while_the_model_is_changed_gets_those_of_the_new_one(
    opened: SessionMemoryStore, path: Path, embedder: GatedEmbedder
) -> None:
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as earlier:
        earlier.store_memory("report", "Something with vectors.", session_id="s")
    memory_id = opened.store_memory("report", DOCUMENT, session_id="s").memory_id
    with SessionMemoryStore(path, SETTINGS, embedder=OtherModel()) as changing:
        assert changing.reembed().remaining == 0
    stored = passages(opened, memory_id)
    assert stored
    embedder.gate.set()
    eventually(lambda: leases(opened) == [])
    assert passages(opened, memory_id) == stored


@pytest.mark.usefixtures("_short_rounds")
def test_a_lease_of_a_memory_that_has_its_vectors_ends(opened: SessionMemoryStore, embedder: GatedEmbedder) -> None:
    embedder.gate.set()
    memory_id = opened.store_memory("report", "Whole.", session_id="s").memory_id
    eventually(lambda: not without_vectors(opened))
    execute(opened, "insert into pending_vectors values (?, 'killed', 0, 0, 0)", memory_id)
    eventually(lambda: not leases(opened))


def test_nobody_waits_for_vectors_that_could_not_be_stored(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise DatabaseError("The disk is full.")

    monkeypatch.setattr(background, "complete", fail)
    opened.store_memory("report", DOCUMENT, session_id="s")
    eventually(lambda: leases(opened)[0][1] == 0)


def test_no_search_waits_for_vectors_that_have_been_missing_for_long(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.store_memory("report", DOCUMENT, session_id="s")
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(BackgroundVectors, "pause", lambda *_: pytest.fail("it waited"))
    assert opened.search_chunks("lemurs", REPORTS).results


def test_short_texts_do_not_wait_for_a_long_one(opened: SessionMemoryStore, embedder: GatedEmbedder) -> None:
    words = " ".join(f"word{number}" for number in range(background.SHORT // 5))
    long = opened.store_memory("working_memory", words, session_id="s").memory_id
    for note in ("First note.", "Second note."):
        opened.store_memory("working_memory", note, session_id="s")
    embedder.gate.set()
    eventually(lambda: not without_vectors(opened))
    first = embedder.embedded.index("First note.")
    assert first <= BATCH  # passages that chunks share are embedded once
    assert embedder.embedded[first : first + 2] == ["First note.", "Second note."]
    assert len(passages(opened, long)) > len(embedder.embedded) - 2


def test_a_backfill_does_what_was_promised_before_the_clock_was_set_back(store: SessionMemoryStore) -> None:
    memory_id = abandon(store, DOCUMENT, until=1e11)
    assert store.backfill_embeddings().memories_processed == 1
    assert passages(store, memory_id)


def test_a_backfill_leaves_to_a_server_what_that_is_computing_and_says_so(opened: SessionMemoryStore) -> None:
    opened.store_memory("report", DOCUMENT, session_id="s")
    told = opened.backfill_embeddings()
    assert (told.memories_processed, told.memories_remaining) == (0, 1)
    assert "1 of them being computed by a server" in (told.message or "")


def test_nobody_is_told_to_backfill_what_is_being_computed(opened: SessionMemoryStore, path: Path) -> None:
    opened.store_memory("report", DOCUMENT, session_id="s")
    opened.tagged.store("Lemurs leap.")
    assert "repeat the search in a moment" in (opened.search_chunks("lemurs", REPORTS, mode="keyword").message or "")
    assert opened.tagged.stats().health_status == "healthy"
    contents = (
        Doctor(memory_address(address_of(path)), SETTINGS, EmbeddingModel(LatticeEmbedder)).examine().parts["contents"]
    )
    (found,) = [finding for finding in contents if finding.name == "unindexed"]
    assert (found.state, "2 new memories" in found.message) == ("ok", True)


def test_what_is_new_says_only_of_what_is_new_that_it_is_being_computed(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.0)
    for text in ("One.", "Two."):
        cursor = opened.search_changes(replace(REPORTS, kind=None), since="now").cursor
        opened.store_memory("report", text, session_id="s")
    answer = opened.search_changes(replace(REPORTS, kind=None), since=cursor, query="two")
    assert "1 memory in this scope still lacks vectors" in (answer.message or "")
    assert "repeat the search in a moment" in (answer.message or "")
