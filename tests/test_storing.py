"""A stored memory exists exactly once, with everything derived from it."""

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import counts, writer_of
from faults.soundness import connected
from inside import database_of
from lattice import LatticeEmbedder
from memory_files import locked
from vector_memory.domain import Fingerprint, Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError, EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.settings import Settings
from vector_memory.storage import postings
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.store import SessionMemoryStore

DOCUMENT = "# Title\n\nintro words here\n\n" + "\n\n".join(
    f"## Section {number}\n\n" + f"word{number} " * 60 for number in range(3)
)


def test_the_receipt_says_what_was_stored(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("report", DOCUMENT, agent_id="explorer", session_id="s", session_iter="v3")
    assert receipt.success
    assert (receipt.memory_id, receipt.memory_type, receipt.agent_id, receipt.session_id) == (
        1,
        "report",
        "explorer",
        "s",
    )
    assert receipt.content_hash == hashlib.sha256(DOCUMENT.encode()).hexdigest()[:16]
    assert receipt.chunks_created == counts(store)["memory_chunks"] > 3
    assert store.get_memory_by_id(1).memory.created_at == receipt.created_at


def test_every_passage_has_one_vector(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    found = counts(store)
    assert found["memory_passages"] == found["vectors"] > found["memory_chunks"]
    store.store_memory("input_prompt", DOCUMENT, session_id="s")
    assert counts(store)["memory_passages"] == counts(store)["vectors"] > found["vectors"]


@pytest.mark.parametrize("kind", ["session_context", "input_prompt", "system_memory", "report_observation"])
def test_kinds_that_are_not_chunked_have_no_chunks_however_long(store: SessionMemoryStore, kind: str) -> None:
    assert store.store_memory(kind, DOCUMENT, session_id="s").chunks_created == 0


@pytest.mark.parametrize("kind", ["report", "working_memory", "knowledge_base"])
def test_a_short_document_is_one_chunk(store: SessionMemoryStore, kind: str) -> None:
    session = None if kind == "knowledge_base" else "s"
    assert store.store_memory(kind, "short", session_id=session, title="t").chunks_created == 1


def test_the_same_content_with_the_same_labels_is_refused_with_its_id(store: SessionMemoryStore) -> None:
    first = store.store_memory("report", DOCUMENT, session_id="s", task_code="t")
    before = counts(store)
    with pytest.raises(DuplicateMemoryError, match="already exists with id 1") as caught:
        store.store_memory("report", DOCUMENT, session_id="s", session_iter="v1", task_code="t", title="other")
    assert caught.value.memory_id == first.memory_id
    assert counts(store) == before


def test_an_observation_may_name_a_stored_report_only(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", "a report", session_id="s").memory_id
    prompt = store.store_memory("input_prompt", "a prompt", session_id="s").memory_id
    noted = store.store_memory("report_observation", "also this", session_id="s", parent_report_id=report)
    assert store.get_memory_by_id(noted.memory_id or 0).memory.metadata == {"parent_report_id": report}
    for missing in (prompt, 99):
        with pytest.raises(NotFoundError, match="There is no report"):
            store.store_memory("report_observation", "more", session_id="s", parent_report_id=missing)


def test_an_untitled_document_takes_its_first_heading_as_title(store: SessionMemoryStore) -> None:
    for content, title in ((DOCUMENT, "Title"), ("plain text", None)):
        receipt = store.store_memory("report", content, session_id="s")
        assert store.reconstruct_document(receipt.memory_id or 0).title == title


@given(
    st.text(
        st.one_of(st.sampled_from("#`\n -|>~*\r\t"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        min_size=1,
    ).filter(str.strip)
)
def test_every_text_can_be_read_back_exactly_as_stored(store: SessionMemoryStore, content: str) -> None:
    try:
        memory_id = store.store_memory("report", content, session_id="s").memory_id
    except DuplicateMemoryError as error:
        memory_id = error.memory_id
    assert store.reconstruct_document(memory_id or 0).content == content


def test_the_title_and_heading_in_front_of_a_passage_reach_the_vector_only_if_enrichment_is_on(tmp_path: Path) -> None:
    found = {}
    for enriched in (False, True):
        settings = Settings(embedding_model="toy", embedding_dim=16, enable_enrichment=enriched)
        with SessionMemoryStore(tmp_path / f"{enriched}.db", settings, embedder=LatticeEmbedder()) as store:
            store.store_memory("report", "some words", session_id="s", title="Title")
            found[enriched] = store.search_chunks("some words", Scope("report"), Page(limit=1)).results[0]
    assert found[False].similarity == 1.0
    assert found[True].similarity < 1.0
    assert found[True].chunk_content == "some words"


class NoModel:
    """An engine that cannot be loaded."""

    def __getattr__(self, name: str) -> object:
        raise EmbeddingUnavailableError("There is no model: run vector-memory fetch-model.")


def test_without_a_model_everything_is_stored_and_the_receipt_says_what_is_missing(
    tmp_path: Path, settings: Settings
) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NoModel()) as store:  # type: ignore[arg-type]
        receipt = store.store_memory("report", DOCUMENT, session_id="s")
        assert receipt.success
        assert "searchable by words, but not yet by meaning. There is no model" in (receipt.message or "")
        assert store.reconstruct_document(receipt.memory_id or 0).content == DOCUMENT
        with pytest.raises(EmbeddingUnavailableError, match="fetch-model"):
            store.search_chunks("word1", Scope("report"), Page(limit=3), mode="vector")


def test_vectors_of_another_model_never_mix_with_the_files(tmp_path: Path, settings: Settings) -> None:
    class OtherEmbedder(LatticeEmbedder):
        fingerprint = Fingerprint("other", 16, "exact", "test")

    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as store:
        store.store_memory("report", "first", session_id="s")
    with SessionMemoryStore(path, settings, embedder=OtherEmbedder()) as store:
        assert "computed with lattice" in (store.store_memory("report", "second", session_id="s").message or "")
        assert counts(store)["vectors"] == 1
        with pytest.raises(EmbeddingUnavailableError, match="lattice"):
            store.search_chunks("first", Scope("report"), Page(limit=3), mode="vector")


def test_a_failed_write_leaves_nothing_of_a_memory(store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValidationError("no")

    before = counts(store)
    monkeypatch.setattr(writer_of(store), "add_passages", fail)
    with pytest.raises(ValidationError):
        store.store_memory("report", DOCUMENT, session_id="s")
    assert counts(store) == before


def test_two_threads_that_store_the_same_at_once_store_it_once(store: SessionMemoryStore) -> None:
    def attempt(_: int) -> str:
        try:
            return f"stored {store.store_memory('report', DOCUMENT, session_id='s').memory_id}"
        except DuplicateMemoryError as error:
            return f"exists {error.memory_id}"

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(attempt, range(8)))
    assert outcomes == {"stored 1": 1, "exists 1": 7}


@pytest.mark.sqlite("these columns are those of the original")
def test_a_chunk_records_its_neighbours_and_its_position(store: SessionMemoryStore, tmp_path: Path) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    with connected(tmp_path / "memory.db") as connection:
        rows = connection.execute(
            "select id, prev_chunk_id, next_chunk_id, chunk_position_ratio, sibling_count from memory_chunks"
        ).fetchall()
    ids = [row[0] for row in rows]
    assert [row[1] for row in rows] == [None, *ids[:-1]]
    assert [row[2] for row in rows] == [*ids[1:], None]
    assert [row[3] for row in rows] == [index / (len(ids) - 1) for index in range(len(ids))]
    assert {row[4] for row in rows} == {len(ids)}


@contextmanager
def lock_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Give a list of the seconds of processor time that each write transaction of the block takes."""
    seconds, write = [], Database.write

    @contextmanager
    def measured(database: Database) -> Iterator[Connection]:
        with write(database) as connection:
            start = time.thread_time()
            yield connection
        seconds.append(time.thread_time() - start)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", measured)
        yield seconds


@pytest.mark.sqlite("the lock is measured in its Database")
@pytest.mark.parametrize(
    "text",
    ["".join(f"word{number} in a sentence of {number} words. " for number in range(13_000)), "# a\n" * 25_000],
    ids=["a long report", "headings"],
)
def test_storing_a_long_report_holds_the_write_lock_for_at_most_a_tenth_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy"), embedder=ToyEngine()) as store:
        with lock_measured(monkeypatch) as seconds:
            start = time.thread_time()
            store.store_memory("report", text, session_id="s")
        assert max(seconds) < (time.thread_time() - start) / 10


@pytest.mark.sqlite("takes the lock of the file")
@pytest.mark.parametrize("kind", ["report", "system_memory"])
def test_words_are_prepared_before_the_write_lock_is_taken(
    store: SessionMemoryStore, path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prepared, cut = [], postings.terms
    database_of(store).create()

    def noted(text: str) -> list[str]:
        with locked(path):
            prepared.append(text)
        return cut(text)

    monkeypatch.setattr(postings, "terms", noted)
    store.store_memory(kind, DOCUMENT, session_id="s")
    assert prepared


@pytest.mark.parametrize(
    ("given", "kept"),
    [("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"), ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z")],
)
def test_a_memory_keeps_the_time_that_it_is_given(given: str, kept: str, store: SessionMemoryStore) -> None:
    receipt = store.store_memory("input_prompt", "Why?", session_id="s", created_at=given)
    assert store.get_memory_by_id(receipt.memory_id).memory.created_at == receipt.created_at == kept


def test_a_time_in_the_future_becomes_the_present(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("input_prompt", "Why?", session_id="s", created_at="2999-01-01T00:00:00Z")
    assert receipt.created_at < "2999"


@pytest.mark.parametrize("given", ["2026-01-31T12:00:00", "yesterday", "", 12])
def test_a_time_without_a_zone_is_refused(given: Any, store: SessionMemoryStore) -> None:
    with pytest.raises(ValidationError, match="created_at must be a time with a time zone"):
        store.store_memory("input_prompt", "Why?", session_id="s", created_at=given)
