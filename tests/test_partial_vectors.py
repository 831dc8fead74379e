"""A long text gets its vectors batch by batch: what is there is found, and what a process leaves the next one adds."""

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines import address_of, column, counts, execute, writer_of
from inside import indexer_of, storage_of
from lattice import LatticeEmbedder
from other_process import SETTINGS
from test_background_vectors import deferring, without_vectors
from test_vector_leases import OtherModel
from vector_memory.domain import Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Vectors
from vector_memory.errors import DatabaseError
from vector_memory.search import retrieval
from vector_memory.settings import Settings, memory_address
from vector_memory.storage.base import Writer
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Level
from vector_memory.writing import background, indexer
from waiting import eventually

BATCH = 4
REPORTS = Scope("report", session_id="s")
SECTIONS = [f"## Part {part}\n\n" + " ".join(f"word{part}x{number}" for number in range(40)) for part in range(5)]
DOCUMENT = "# Title\n\n" + "\n\n".join(SECTIONS)
NOTE = " ".join(f"entry{number}" for number in range(99))
TEXTS = {"report": DOCUMENT, "working_memory": NOTE}


class SteppingEmbedder(LatticeEmbedder):
    """Computes one batch in the background for each call of `step`, until `go_on`."""

    def __init__(self) -> None:
        self._steps = threading.Semaphore(0)
        self.embedded: list[str] = []

    def step(self) -> None:
        self._steps.release()

    def go_on(self) -> None:
        self._steps.release(10_000)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if threading.current_thread().name == "vectors":
            assert self._steps.acquire(timeout=60)
            self.embedded += texts
        return super().embed(texts)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "BATCH", BATCH)
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.0)


@pytest.fixture
def embedder() -> Iterator[SteppingEmbedder]:
    stepping = SteppingEmbedder()
    yield stepping
    stepping.go_on()


@pytest.fixture
def opened(path: Path, embedder: SteppingEmbedder) -> Iterator[SessionMemoryStore]:
    with deferring(path, embedder) as store:
        yield store


def spans(store: SessionMemoryStore) -> list[tuple[int, int]]:
    """Return where the passages are that are stored, in order."""
    return execute(store, "select start_char, end_char from memory_passages order by id")


def begun(store: SessionMemoryStore, embedder: SteppingEmbedder, batches: int, kind: str = "report") -> int:
    """Store a text of which so many batches have vectors, and return its id."""
    memory_id = store.store_memory(kind, TEXTS[kind], session_id="s").memory_id
    for number in range(1, batches + 1):
        embedder.step()
        eventually(lambda number=number: len(spans(store)) == number * BATCH)
    return memory_id


def finish(store: SessionMemoryStore, embedder: SteppingEmbedder) -> None:
    embedder.go_on()
    eventually(lambda: not without_vectors(store))


def contents(store: SessionMemoryStore) -> list[Any]:
    """Return each memory's passages and vectors, and what searches find, as far as it does not depend on the time."""
    with storage_of(store).read() as reader:
        stored = [
            [(passage.chunk, passage.start, passage.end, passage.vector.tobytes()) for passage in passages]
            for passages in map(reader.vectors.passages_of, reader.memories.page(Scope(), 100, order="oldest"))
        ]
    hits: list[Any] = store.search_chunks("word3x7 word3x8", REPORTS, Page(limit=20)).results
    hits += store.search_memories("entry50", Scope("working_memory"), Page(limit=20)).results
    return [stored, [hit.model_dump(exclude={"created_at", "updated_at", "accessed_at"}) for hit in hits]]


@contextmanager
def reference(tmp_path: Path, *kinds: str, settings: Settings = SETTINGS) -> Iterator[SessionMemoryStore]:
    """Open a store whose receipts wait for vectors, with the same texts."""
    with SessionMemoryStore(tmp_path / "reference.db", settings, embedder=LatticeEmbedder()) as store:
        for kind in kinds or ("report",):
            store.store_memory(kind, TEXTS[kind], session_id="s")
        yield store


def test_the_beginning_of_a_long_text_is_found_by_meaning_before_its_end_has_vectors(
    opened: SessionMemoryStore, embedder: SteppingEmbedder
) -> None:
    begun(opened, embedder, 2)
    answer = opened.search_chunks("Part 0", REPORTS, Page(limit=20), mode="vector")
    assert {hit.chunk_id for hit in answer.results} == set(column(opened, "select chunk_id from memory_passages"))
    assert "1 memory in this scope still lacks vectors" in (answer.message or "")
    assert without_vectors(opened) == 1


@pytest.mark.parametrize("kind", TEXTS)
def test_what_was_stored_in_batches_equals_what_was_stored_at_once(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, tmp_path: Path, kind: str
) -> None:
    begun(opened, embedder, 1, kind)
    finish(opened, embedder)
    with reference(tmp_path, kind) as expected:
        assert contents(opened) == contents(expected)


def test_the_next_process_embeds_only_what_is_not_stored(
    path: Path, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    with deferring(path, embedder) as store:
        begun(store, embedder, 3)
    later = SteppingEmbedder()
    with deferring(path, later) as store, reference(tmp_path) as expected:
        finish(store, later)
        assert contents(store) == contents(expected)
        rest = [DOCUMENT[start:end] for start, end in spans(store)[3 * BATCH :]]
        assert sorted(later.embedded) == sorted(set(rest))  # chunks overlap: some passages are in two of them


def test_a_backfill_goes_on_where_a_server_was_killed(path: Path, embedder: SteppingEmbedder, tmp_path: Path) -> None:
    with deferring(path, embedder) as store:
        begun(store, embedder, 2)
    done: list[tuple[int, int]] = []
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store, reference(tmp_path) as expected:
        with storage_of(store).read() as reader:
            memory = reader.memories.get(1)
        indexer.complete(storage_of(store), indexer_of(store), memory, lambda *counts: done.append(counts))
        assert done[0][0] == 3 * BATCH
        assert contents(store) == contents(expected)


def test_passages_that_were_cut_in_another_way_are_computed_again(
    path: Path, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    with deferring(path, embedder) as store:
        begun(store, embedder, 2)
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store, reference(tmp_path) as expected:
        execute(store, "update memory_passages set end_char = end_char - 1 where id = 3")
        store.backfill_embeddings()
        assert contents(store) == contents(expected)


def begun_with(path: Path, settings: Settings, batches: int) -> None:
    """Store a document, with vectors of so many batches, in a process that then ends."""
    embedder = SteppingEmbedder()
    with SessionMemoryStore(path, settings, embedder=embedder) as store:
        store.defer_vectors()
        begun(store, embedder, batches)
    embedder.go_on()


@pytest.mark.parametrize("enriching", [True, False])
def test_no_text_has_vectors_with_headers_and_vectors_without(tmp_path: Path, path: Path, *, enriching: bool) -> None:
    before, after = (SETTINGS.model_copy(update={"enable_enrichment": on}) for on in (enriching, not enriching))
    begun_with(path, before, 2)
    with SessionMemoryStore(path, after, embedder=LatticeEmbedder()) as store:
        store.backfill_embeddings()
        with reference(tmp_path, settings=after) as expected:
            assert contents(store) == contents(expected)
        with storage_of(store).read() as reader:
            assert {part.enriched for part in reader.chunks.of(1)} == {not enriching}


def test_a_process_with_the_other_setting_does_not_add_to_vectors_with_headers(tmp_path: Path, path: Path) -> None:
    plain, enriching = (SETTINGS.model_copy(update={"enable_enrichment": on}) for on in (False, True))
    begun_with(path, plain, 1)
    with SessionMemoryStore(path, plain, embedder=LatticeEmbedder()) as late:
        with storage_of(late).read() as reader:
            memory = reader.memories.get(1)

        def let_another_begin_anew(done: int, _total: int) -> None:
            """Both have then stored as many batches."""
            with SessionMemoryStore(path, enriching, embedder=LatticeEmbedder()) as other:

                def stop(other_done: int, _total: int) -> None:
                    if other_done == done:
                        raise InterruptedError

                with pytest.raises(InterruptedError):
                    indexer.complete(storage_of(other), indexer_of(other), memory, stop)

        assert indexer.complete(storage_of(late), indexer_of(late), memory, let_another_begin_anew) is None
    with SessionMemoryStore(path, enriching, embedder=LatticeEmbedder()) as store:
        assert len(spans(store)) == 2 * BATCH
        store.backfill_embeddings()
        with reference(tmp_path, settings=enriching) as expected:
            assert contents(store) == contents(expected)


def test_chunks_keep_their_size_when_the_setting_changes_before_they_have_vectors(tmp_path: Path, path: Path) -> None:
    begun_with(path, SETTINGS, 2)
    larger = SETTINGS.model_copy(update={"default_chunk_size": 64})
    with SessionMemoryStore(path, larger, embedder=LatticeEmbedder()) as store, reference(tmp_path) as expected:
        store.backfill_embeddings()
        assert contents(store) == contents(expected)


def test_processes_that_compute_the_same_text_store_each_passage_once(
    opened: SessionMemoryStore, path: Path, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    memory_id = begun(opened, embedder, 1)
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as other, reference(tmp_path) as expected:
        with storage_of(other).read() as reader:
            memory = reader.memories.get(memory_id)

        def let_the_first_one_go_on(done: int, _total: int) -> None:
            embedder.go_on()
            eventually(lambda: len(spans(opened)) > done)

        assert indexer.complete(storage_of(other), indexer_of(other), memory, let_the_first_one_go_on) is None
        finish(opened, embedder)
        assert contents(opened) == contents(expected)


def test_a_text_whose_batches_cannot_be_stored_for_a_while_gets_its_rest_later(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(opened, embedder, 1)
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.5)
    writer_class = writer_of(opened)
    add, failures = writer_class.add_vectors, iter([False, True, True])

    def add_unless_full(writer: Writer, *args: Any, **named: Any) -> bool:
        if next(failures, False):
            raise DatabaseError("The disk is full.")
        return add(writer, *args, **named)

    monkeypatch.setattr(writer_class, "add_vectors", add_unless_full)
    finish(opened, embedder)
    assert next(failures, None) is None
    with reference(tmp_path) as expected:
        assert contents(opened) == contents(expected)


@pytest.mark.parametrize("batches", [0, 2])
def test_a_text_that_is_deleted_before_it_has_all_its_vectors_leaves_nothing(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, batches: int
) -> None:
    opened.delete_memory(begun(opened, embedder, batches))
    embedder.go_on()
    kept = opened.store_memory("report", "Something else.", session_id="s").memory_id
    eventually(lambda: not without_vectors(opened))
    assert column(opened, "select distinct memory_id from memory_passages") == [kept]
    assert counts(opened)["vectors"] == len(spans(opened))
    assert not execute(opened, "select * from pending_vectors")


def test_what_is_changed_to_another_model_between_two_batches_gets_vectors_of_that_one_only(
    opened: SessionMemoryStore, path: Path, embedder: SteppingEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(opened, embedder, 2)
    with SessionMemoryStore(path, SETTINGS, embedder=OtherModel()) as changing:
        assert changing.reembed().remaining == 0
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.5)
    embedder.go_on()
    with deferring(path, OtherModel()) as renewed:
        eventually(lambda: not without_vectors(renewed))
        with reference(tmp_path) as expected:  # the models differ in their names only
            assert contents(renewed) == contents(expected)
        with storage_of(renewed).read() as reader:
            assert reader.vectors.fingerprint() == OtherModel.fingerprint


def test_vectors_are_exported_only_of_texts_that_have_all_of_them(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    begun(opened, embedder, 2)
    stream = io.BytesIO()
    opened.export_memories(stream, with_vectors=True)
    stream.seek(0)
    with SessionMemoryStore(tmp_path / "other.db", SETTINGS, embedder=LatticeEmbedder()) as other:
        assert other.import_memories(stream).without_vectors == 1
        assert not spans(other)
        other.backfill_embeddings()
        with reference(tmp_path) as expected:
            assert contents(other) == contents(expected)


def test_the_mean_of_a_text_is_that_of_all_its_vectors_or_none(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    memory_id = begun(opened, embedder, 2)
    with storage_of(opened).read() as reader:
        assert not len(reader.vectors.mean_vectors([memory_id])[0])
    finish(opened, embedder)
    with storage_of(opened).read() as reader, reference(tmp_path) as expected, storage_of(expected).read() as other:
        assert np.array_equal(reader.vectors.mean_vectors([memory_id])[1], other.vectors.mean_vectors([memory_id])[1])


def test_the_doctor_finds_nothing_wrong_with_the_beginning_of_a_text_and_repairs_its_end(
    path: Path, embedder: SteppingEmbedder, tmp_path: Path
) -> None:
    with deferring(path, embedder) as store:
        begun(store, embedder, 2)
    doctor = Doctor(memory_address(address_of(path)), SETTINGS, EmbeddingModel(LatticeEmbedder))
    report = doctor.examine(deep=True)
    assert [finding.name for finding in report.parts["contents"] if finding.state != Level.OK] == ["unindexed"]
    doctor.repair_all(report)
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store, reference(tmp_path) as expected:
        assert contents(store) == contents(expected)


@pytest.mark.sqlite("the columns of PostgreSQL have types")
def test_a_short_text_gets_its_vectors_in_one_transaction(
    opened: SessionMemoryStore, embedder: SteppingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.store_memory("report", "Something short.", session_id="s")
    writes: list[str] = []
    write = storage_of(opened).write

    def noted() -> Any:
        if threading.current_thread().name == "vectors":
            writes.append("vectors")
        return write()

    monkeypatch.setattr(storage_of(opened), "write", noted)
    finish(opened, embedder)
    assert writes == ["vectors"]
