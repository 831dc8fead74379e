"""Counting, deleting, cleaning up, filling in vectors."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engines import counts, execute
from inside import database_of, storage_of
from lattice import LatticeEmbedder
from original_files import unpacked
from vector_memory.domain import Page, Scope
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.indexing import background
from vector_memory.results.overview import BackfillResult
from vector_memory.results.sessions import to_second
from vector_memory.settings import Settings
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.sqlite.database import Connection
from vector_memory.store import SessionMemoryStore
from waiting import eventually

DOCUMENT = "# Title\n\n" + "\n\n".join(f"zanzibar{number} " * 20 for number in range(12))


def age(store: SessionMemoryStore, memory_id: int, days: int) -> None:
    created_at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    execute(store, "update session_memories set created_at = ? where id = ?", created_at, memory_id)


def test_deleting_a_memory_deletes_everything_derived_from_it(store: SessionMemoryStore) -> None:
    before = counts(store)
    for kind in ("report", "system_memory"):
        memory_id = store.store_memory(kind, DOCUMENT, session_id="s").memory_id or 0
        assert counts(store) != before
        assert store.delete_memory(str(memory_id)).memory_id == memory_id
        assert counts(store) == before
        with pytest.raises(NotFoundError):
            store.get_memory_by_id(memory_id)


def test_memories_that_share_a_name_with_a_deleted_one_are_still_found_by_it(store: SessionMemoryStore) -> None:
    for text in ("one", "two"):
        store.store_memory("report", text, session_id="s", agent_id="a", task_code="t")
    store.delete_memory(1)
    scope = Scope("report", session_id="s", agent_id="a", task_code="t")
    assert [chunk.memory_id for chunk in store.search_chunks("two", scope, Page(limit=5)).results] == [2]


def test_a_dry_run_reports_what_the_real_run_does(store: SessionMemoryStore) -> None:
    for number, days in enumerate((100, 89, 91, 0)):
        age(store, store.store_memory("report", f"{number} {DOCUMENT}", session_id="s").memory_id or 0, days)
    dry = store.cleanup_old_memories()
    assert (dry.dry_run, dry.memories_deleted) == (True, 2)
    assert dry.chunks_deleted > 10
    assert store.get_session_stats("s").total_memories == 4
    real = store.cleanup_old_memories(90, dry_run=False)
    assert (real.memories_deleted, real.chunks_deleted) == (dry.memories_deleted, dry.chunks_deleted)
    assert store.get_session_stats("s").total_memories == 2
    assert store.cleanup_old_memories().memories_deleted == 0


def test_a_clean_up_leaves_what_supersedes_or_corrects_a_memory_that_stays_and_says_so(
    store: SessionMemoryStore,
) -> None:
    def stored(kind: str, content: str, **fields: Any) -> int:
        return store.store_memory(kind, content, created_at="2020-01-01T00:00:00Z", **fields).memory_id or 0

    monday = stored("report", "Deploys go out on Monday.", session_id="s")
    friday = stored("working_memory", "Deploys moved to Friday.", session_id="t", agent_id="b", supersedes=[monday])
    corrected = stored("report", "The cookie is SameSite=Lax.", session_id="s")
    fields: dict[str, Any] = {"parent_report_id": corrected, "corrects": True}
    correction = stored("report_observation", "It is SameSite=Strict.", session_id="u", **fields)
    stored("report_observation", "It was seen twice.", session_id="u", parent_report_id=corrected)
    store.pin(monday)
    store.pin(corrected)
    dry = store.cleanup_old_memories(90)
    assert (dry.memories_deleted, dry.memories_kept) == (1, 2)
    assert "Kept 2 old memories: what supersedes or corrects one that stays, stays." in str(dry.message)
    done = store.cleanup_old_memories(90, dry_run=False)
    assert (done.memories_deleted, done.memories_kept) == (1, 2)
    assert [entry.memory_id for entry in store.get_timeline(Scope()).entries] == [friday, corrected, correction]
    store.unpin(monday)
    assert store.cleanup_old_memories(90, dry_run=False).memories_deleted == 2
    assert [entry.memory_id for entry in store.get_timeline(Scope()).entries] == [corrected, correction]


@pytest.mark.parametrize("days", [-1, 36_501, True])
def test_an_invalid_number_of_days_is_refused(store: SessionMemoryStore, days: int) -> None:
    with pytest.raises(ValidationError, match="days_old must be an integer"):
        store.cleanup_old_memories(days, dry_run=False)


def test_statistics_count_a_session_by_kind_and_agent(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s", agent_id="explorer")
    store.store_memory("input_prompt", "why", session_id="s")
    store.store_memory("report", "elsewhere", session_id="t")
    stats = store.get_session_stats("s")
    assert stats.memory_counts == {"input_prompt": 1, "report": 1}
    assert stats.agent_counts == {"explorer": 1, "main-orchestrator": 1}
    assert (stats.total_memories, stats.session_id) == (2, "s")
    assert stats.total_chunks == store.reconstruct_document(1).chunk_count
    with storage_of(store).read() as reader:  # answers give times to the second
        counts = reader.sessions.counts("s")
    assert (counts.earliest_created or "") < (counts.latest_created or "")
    assert stats.earliest_created == to_second(counts.earliest_created or "")
    assert stats.latest_created == to_second(counts.latest_created or "")


def test_an_unknown_session_is_empty_and_says_so(store: SessionMemoryStore) -> None:
    stats = store.get_session_stats("nobody")
    assert (stats.success, stats.total_memories, stats.total_chunks) == (True, 0, 0)
    assert "list_sessions" in (stats.message or "")


class Unavailable(LatticeEmbedder):
    """An engine whose model is missing until `ready` is set."""

    ready = False

    def embed(self, texts: list[str]) -> object:  # type: ignore[override]
        if not self.ready:
            raise EmbeddingUnavailableError("There is no model: run vector-memory fetch-model.")
        return super().embed(texts)


def test_memories_stored_without_a_model_are_found_after_a_backfill(tmp_path: Path, settings: Settings) -> None:
    embedder = Unavailable()
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=embedder) as store:  # type: ignore[arg-type]
        chunk_count = store.store_memory("report", DOCUMENT, session_id="s").chunks_created
        store.store_memory("system_memory", "a b c", session_id="s")
        with pytest.raises(EmbeddingUnavailableError):
            store.backfill_embeddings()
        embedder.ready = True
        steps: list[tuple[int, int]] = []
        result = store.backfill_embeddings(lambda done, total: steps.append((done, total)))
        assert result == BackfillResult(
            memories_processed=2, chunks_processed=chunk_count or 0, memories_remaining=0, message=result.message
        )
        assert steps == [(1, 2), (2, 2)]
        assert store.search_memories("a b c", Scope("system_memory"), Page(limit=1)).results[0].similarity == 1.0
        assert store.backfill_embeddings().memories_processed == 0
        assert len(store.search_chunks("zanzibar3", Scope("report"), Page(limit=100)).results) == chunk_count


def test_a_memory_that_another_process_indexes_at_the_same_time_is_indexed_once(
    tmp_path: Path, settings: Settings
) -> None:
    class Overtaken(Unavailable):
        def embed(self, texts: list[str]) -> object:  # type: ignore[override]
            vectors = super().embed(texts)
            with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as other:
                other.backfill_embeddings()
            return vectors

    path = tmp_path / "memory.db"
    embedder = Overtaken()
    with SessionMemoryStore(path, settings, embedder=embedder) as store:  # type: ignore[arg-type]
        store.store_memory("system_memory", "a b c", session_id="s")
        embedder.ready = True
        store.backfill_embeddings()
        assert counts(store)["memory_passages"] == counts(store)["vectors"] == 1


def test_a_memory_on_which_the_engine_fails_does_not_stop_the_others(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    class Choosy(Unavailable):
        def embed(self, texts: list[str]) -> object:  # type: ignore[override]
            if self.ready and "poison" in texts[0]:
                raise RuntimeError(texts[0])
            return super().embed(texts)

    embedder = Choosy()
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=embedder) as store:  # type: ignore[arg-type]
        for text in ("one", "poison", "three"):
            store.store_memory("system_memory", text, session_id="s")
        embedder.ready = True
        result = store.backfill_embeddings()
        assert (result.memories_processed, result.memories_remaining) == (2, 1)
        found = store.search_memories("three", Scope("system_memory"), Page(limit=5))
    assert sorted(memory.id for memory in found.results) == [1, 3]
    assert "1 memory in this scope still lacks vectors" in (found.message or "")
    assert "poison" not in caplog.text


def test_other_processes_can_store_between_the_deletions_of_a_clean_up(
    store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        age(store, store.store_memory("report", f"{number} {DOCUMENT}", session_id="s").memory_id or 0, 100)
    write = database_of(store).write
    with SessionMemoryStore(tmp_path / "memory.db", store.settings, embedder=LatticeEmbedder()) as other:

        def write_after_another_process() -> AbstractContextManager[Connection]:
            other.store_memory(
                "report", f"new {len(other.list_sessions(100).sessions)}", session_id=str(time.time_ns())
            )
            return write()

        monkeypatch.setattr(database_of(store), "write", write_after_another_process)
        assert store.cleanup_old_memories(90, dry_run=False).memories_deleted == 5
        assert other.list_sessions().total_sessions == 5


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def run_in_background(path: Path, settings: Settings, wait: Callable[[SessionMemoryStore], None]) -> int:
    with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as store:
        store.start_background_work()
        wait(store)
        return counts(store)["memory_passages"]


@pytest.mark.sqlite("the original has files only")
def test_a_file_of_the_original_is_indexed_in_the_background_at_start(original: Path) -> None:
    def wait(store: SessionMemoryStore) -> None:
        eventually(lambda: store.get_memory_stats().without_vectors == 0)
        found = store.search_documents("ledger table lock", Scope("report"), Page(limit=5), order="relevance").results
        assert found[0].id == 1

    assert run_in_background(original, Settings(embedding_model="toy", embedding_dim=16), wait) > 6


def test_a_store_that_is_closed_before_its_background_work_begins_reports_no_failure(
    original: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SessionMemoryStore(original, Settings(embedding_model="toy", embedding_dim=16), embedder=LatticeEmbedder())
    store.close()
    store.start_background_work()
    assert caplog.messages == []


def test_a_backfill_larger_than_the_threshold_is_left_to_the_command(original: Path) -> None:
    settings = Settings(embedding_model="toy", embedding_dim=16, auto_backfill_threshold=8)
    assert run_in_background(original, settings, lambda store: store._backfill.begin(8)) == 0


class FailingUpgrade:
    """Fails to finish the upgrade of a store's memory, all of whose words are outdated, as long as `fails` is set."""

    def __init__(self, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        store.store_memory("report", DOCUMENT, session_id="s")
        execute(store, "update keyword_blocks set rules = 0")
        self._storage = storage_of(store)
        self.fails, self.tried = True, 0
        index_again = KeywordIndex.index_again

        def tried(words: KeywordIndex) -> bool:
            self.tried += 1
            if self.fails:
                raise DatabaseError("The disk is full.")
            return index_again(words)

        monkeypatch.setattr(KeywordIndex, "index_again", tried)

    def is_finished(self) -> bool:
        with self._storage.read() as reader:
            return reader.upkeep.portions.count_outdated() == 0


def test_words_are_indexed_again_although_the_database_fails_at_first(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.01)
    upgrade = FailingUpgrade(store, monkeypatch)
    store.start_background_work()
    eventually(lambda: upgrade.tried > 2)
    assert not upgrade.is_finished()
    upgrade.fails = False
    eventually(upgrade.is_finished)
    assert caplog.messages == ["Backfill postponed: The disk is full."]


def test_closing_the_store_ends_the_pause_before_the_next_attempt(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", 3600.0)
    upgrade = FailingUpgrade(store, monkeypatch)
    store.start_background_work()
    eventually(lambda: upgrade.tried)
    threads = [thread for thread in threading.enumerate() if thread.name == "vectors"]
    store.close()
    eventually(lambda: not any(thread.is_alive() for thread in threads))
    assert upgrade.tried == 1


def test_sessions_of_hundreds_of_agents_still_fit_into_an_answer(store: SessionMemoryStore) -> None:
    for number in range(150):
        store.store_memory("input_prompt", f"p{number}", agent_id=f"{number:03} {'x' * 190}", session_id="s")
        store.store_memory("input_prompt", f"p{number}", agent_id="y" * 200, session_id=f"{number} {'z' * 190}")
    listed = store.list_sessions(100)
    assert len(listed.model_dump_json()) < 3 * store.settings.max_response_tokens + 1_000
    assert 0 < len(listed.sessions) < 100
    assert "did not fit" in (listed.message or "")
    (session,) = store.list_sessions(1, agent_id=f"000 {'x' * 190}").sessions
    assert (session.agent_count, len(session.agents)) == (1, 1)
    statistics = store.get_session_stats("s")
    assert (len(statistics.agent_counts), statistics.total_memories) == (100, 150)
    assert "50 others left out" in (statistics.message or "")


def test_a_listing_names_the_first_agents_and_counts_all(store: SessionMemoryStore) -> None:
    for number in range(25):
        store.store_memory("input_prompt", "p", agent_id=f"agent {number:02}", session_id="s")
    (session,) = store.list_sessions().sessions
    assert session.agents == [f"agent {number:02}" for number in range(20)]
    assert session.agent_count == 25
