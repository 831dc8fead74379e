"""Counting, deleting, cleaning up, filling in vectors; what expires, and what is pinned."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from engines import counts, execute
from inside import database_of, storage_of
from lattice import LatticeEmbedder
from original_files import unpacked
from vector_memory.answers.models import to_second
from vector_memory.answers.overview import BackfillResult
from vector_memory.domain import MemoryKind, Page, Project, Scope
from vector_memory.errors import (
    AccessDeniedError,
    DatabaseError,
    EmbeddingUnavailableError,
    NotFoundError,
    ValidationError,
)
from vector_memory.settings import Settings, retention_rules
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.sqlite.database import Connection
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backfill import Backfill
from vector_memory.writing import background
from waiting import at_once, eventually

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
    assert "Kept 2 old memories: they supersede or correct ones that stay." in str(dry.message)
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


def test_a_backfill_larger_than_the_threshold_is_left_to_the_command(
    original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, begin = threading.Event(), Backfill.begin

    def noted(backfill: Backfill, threshold: int) -> bool:
        is_changed = begin(backfill, threshold)
        begun.set()
        return is_changed

    monkeypatch.setattr(Backfill, "begin", noted)
    settings = Settings(embedding_model="toy", embedding_dim=16, auto_backfill_threshold=8)
    assert run_in_background(original, settings, lambda _: eventually(begun.is_set)) == 0


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


REPORTS = Scope(MemoryKind.REPORT)
WORD = "zanzibar"
TEXT = f"# {WORD}\n\nThe {WORD} gauge shows nine."


def expire(store: SessionMemoryStore, memory_id: int, days: float = 1) -> None:
    """Let a memory that expires have done so a time ago."""
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    execute(store, "update memory_lifecycle set expires_at = ? where memory_id = ?", at, memory_id)


def stored(store: SessionMemoryStore, text: str = TEXT, kind: str = "report", **fields: Any) -> int:
    session = {} if kind == "knowledge_base" else {"session_id": "s"}
    return store.store_memory(kind, text, **{**session, "agent_id": "a", "ttl_days": 1, **fields}).memory_id or 0


@pytest.fixture
def expired(store: SessionMemoryStore) -> int:
    """A report that has expired, with an observation and a working memory that have, too, beside what has not."""
    number = stored(store, task_code="gone")
    stored(store, f"It shows ten, the {WORD}.", "report_observation", parent_report_id=number)
    prompt = stored(store, f"What does {WORD} show?", "input_prompt", metadata={"project": "/work"})
    stored(store, f"{WORD} works.", "working_memory")
    stored(store, "Nothing of that.", ttl_days=None, session_id="other", agent_id="b")
    for each in range(number, prompt + 2):
        expire(store, each)
    return number


def texts_of(store: SessionMemoryStore) -> Iterator[tuple[str, object]]:
    """Yield what each kind of read answers."""
    page = Page(limit=20)
    for kind in MemoryKind:
        scope = Scope(kind)
        for how in (scope, Scope(kind, as_of="any"), Scope(kind, session_id=None if kind == "knowledge_base" else "s")):
            yield "list", store.search_scoped(how, page)
            if kind in (MemoryKind.REPORT, MemoryKind.WORKING_MEMORY, MemoryKind.KNOWLEDGE_BASE):
                yield "chunks", store.search_chunks(WORD, how, page)
                yield "sections", store.search_sections(WORD, how, page)
                yield "documents", store.search_documents(WORD, how, page)
            elif kind is not MemoryKind.TAGGED:
                yield "memories", store.search_memories(WORD, how, page)
    yield "tagged", store.tagged.search(WORD)
    yield "recent", store.tagged.list_recent()
    for session in ("s", "other"):
        yield "context", store.load_session_context_for_task(session)
        yield "changes", store.search_changes(Scope(session_id=session), full=True)
        yield "new", store.search_changes(Scope(session_id=session), query=WORD)
    yield "timeline", store.get_timeline(Scope())
    yield "recap", store.past.recap(Project("/work", owns_memory=True), "none")
    export = BytesIO()
    store.export_memories(export)
    yield "export", export.getvalue().decode()


@pytest.mark.usefixtures("expired")
def test_no_read_returns_what_has_expired(store: SessionMemoryStore) -> None:
    for name, answer in texts_of(store):
        text = answer if isinstance(answer, str) else repr(answer)
        assert f"The {WORD}" not in text, name
        assert f"{WORD} works" not in text, name
        assert f"does {WORD}" not in text, name


@pytest.mark.usefixtures("expired")
def test_no_count_and_no_name_tells_of_what_has_expired(store: SessionMemoryStore) -> None:
    assert store.count_memories() == 1
    assert store.get_session_stats("s").total_memories == store.get_session_stats("s").total_chunks == 0
    stats = store.get_memory_stats()
    assert (stats.total_memories, stats.total_sessions, stats.memory_counts) == (1, 1, {"report": 1})
    assert [one.session_id for one in store.list_sessions().sessions] == ["other"]
    assert store.find_names("session_id") == (["other"], 1)
    assert store.find_names("task_code") == ([], 0)
    assert store.past.last_session(Project("/work", owns_memory=True), None) == "other"


def test_whoever_asks_by_id_is_told_when_it_expired(store: SessionMemoryStore, expired: int) -> None:
    chunk = execute(store, "select id from memory_chunks where parent_id = ?", expired)[0][0]
    limited = store.limited_to(["s"])
    calls: list[Callable[[], object]] = [
        lambda: store.get_memory_by_id(expired),
        lambda: limited.get_memory_by_id(expired),
        lambda: store.reconstruct_document(expired),
        lambda: store.expand_chunk_context(chunk),
        lambda: limited.expand_chunk_context(chunk),
        lambda: store.write_document_to_file(expired, "report.md"),
        lambda: store.describe_memory(expired),
        lambda: store.delete_memory(expired),
        lambda: store.tagged.get(expired),
        lambda: store.pin(expired),
        lambda: store.amend_memory(expired, title="x"),
    ]
    for call in calls:
        with pytest.raises(
            NotFoundError, match=rf"^Memory {expired} expired on 20\d\d-\d\d-\d\dT\d\d:\d\dZ and is being"
        ):
            call()
    with pytest.raises(NotFoundError, match="There is no memory"):
        store.limited_to(["other"]).get_memory_by_id(expired)


def test_an_expired_text_can_be_stored_again(store: SessionMemoryStore) -> None:
    first = stored(store)
    expire(store, first)
    second = stored(store)
    assert second != first
    assert [chunk.memory_id for chunk in store.search_chunks(WORD, REPORTS).results] == [second]


def test_what_expires_is_returned_until_then_and_says_when(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("report", TEXT, session_id="s", expires_at="2999-12-31")
    assert receipt.expires_at == "2999-12-31T23:59:59Z"
    entry = store.get_memory_by_id(receipt.memory_id).memory
    assert (entry.expires_at, entry.pinned) == ("2999-12-31T23:59:59Z", None)
    other = store.store_memory("report", "lasting", session_id="s")
    assert "expires_at" not in other.model_dump()
    assert {"expires_at", "pinned"}.isdisjoint(store.get_memory_by_id(other.memory_id).memory.model_dump())


def test_a_note_expires_too(store: SessionMemoryStore) -> None:
    note = store.tagged.store(f"The {WORD} note", "other", ["a"], ttl_days=1).memory_id
    assert store.tagged.get(note).memory.expires_at
    expire(store, note)
    assert store.tagged.stats().total_memories == store.tagged.search(WORD).total == 0
    assert store.tagged.store(f"The {WORD} note", "other", ["a"]).memory_id != note


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"ttl_days": 0}, "ttl_days must be a number above 0, up to 36,500"),
        ({"ttl_days": float("nan")}, "ttl_days must be"),
        ({"ttl_days": True}, "ttl_days must be"),
        ({"expires_at": "2020"}, "expires_at is in the past"),
        ({"expires_at": "soon"}, "expires_at must be a date or time"),
        ({"expires_at": "2999", "ttl_days": 1}, "not both"),
    ],
)
def test_a_lifetime_that_makes_no_sense_is_refused(
    store: SessionMemoryStore, sent: dict[str, Any], problem: str
) -> None:
    for store_it in (
        lambda: store.store_memory("report", TEXT, session_id="s", **sent),
        lambda: store.tagged.store("n", **sent),
    ):
        with pytest.raises(ValidationError, match=problem):
            store_it()
    assert store.count_memories() == 0


def test_a_time_is_a_moment_in_its_zone_and_a_day_lasts_to_its_end(store: SessionMemoryStore) -> None:
    for sent, kept in (
        ("2999-01-01T10:00+02:00", "2999-01-01T08:00:00Z"),
        ("2999-01-01T10:00", "2999-01-01T10:00:00Z"),
        ("2999-02", "2999-02-28T23:59:59Z"),
    ):
        assert store.store_memory("report", sent, session_id="s", expires_at=sent).expires_at == kept


def test_a_process_with_background_work_erases_what_has_expired(
    store: SessionMemoryStore, expired: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.1)
    store.start_background_work()
    eventually(lambda: execute(store, "select count(*) from session_memories")[0][0] == 1)
    left = counts(store)
    assert left["memory_chunks"] == left["memory_passages"] == left["keyword_memories"] == 1
    with pytest.raises(NotFoundError, match="There is no memory"):
        store.get_memory_by_id(expired)


def test_two_processes_may_erase_at_the_same_time(store: SessionMemoryStore, path: Path, settings: Settings) -> None:
    for number in range(12):
        expire(store, stored(store, f"text {number}"))
    erased: list[int] = []
    with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as other:
        at_once(*(lambda one=one: erased.append(one.erase_expired()) for one in (store, other)))
    assert sum(erased) == 12
    assert execute(store, "select count(*) from memory_lifecycle") == [(0,)]


@pytest.mark.usefixtures("expired")
def test_a_clean_up_erases_what_has_expired_but_a_dry_run_does_not(store: SessionMemoryStore) -> None:
    assert store.cleanup_old_memories(0).memories_deleted == 1
    assert execute(store, "select count(*) from session_memories") == [(5,)]
    assert store.cleanup_old_memories(365, dry_run=False).memories_deleted == 0
    assert execute(store, "select count(*) from session_memories") == [(1,)]


def test_a_memory_that_is_only_read_hides_what_has_expired(
    store: SessionMemoryStore, expired: int, path: Path, settings: Settings
) -> None:
    with SessionMemoryStore(path, settings, read_only=True, embedder=LatticeEmbedder()) as reader:
        reader.start_background_work()
        assert reader.count_memories() == 1
        with pytest.raises(NotFoundError, match="expired on"):
            reader.get_memory_by_id(expired)
    assert execute(store, "select count(*) from session_memories") == [(5,)]


def test_the_time_stands_still_during_a_read(store: SessionMemoryStore) -> None:
    number = stored(store, ttl_days=2 / 86_400)
    with storage_of(store).read() as reader:
        at = reader.memories.get(number).expires_at
        eventually(lambda: datetime.now(UTC).isoformat() > (at or ""))
        assert reader.memories.get(number).content == TEXT
    with pytest.raises(NotFoundError, match="expired on"):
        store.get_memory_by_id(number)


def test_what_an_expired_memory_superseded_is_current_again(store: SessionMemoryStore) -> None:
    old = stored(store, f"{WORD} is old", ttl_days=None)
    new = stored(store, f"{WORD} is new", supersedes=[old])
    with storage_of(store).write() as writer:
        assert [memory.id for memory in writer.memories.page(REPORTS, 9)] == [new]
        writer.expire(new, "2020-01-01T00:00:00.000000+00:00")
    for erased in (False, True):
        assert [chunk.memory_id for chunk in store.search_chunks(WORD, REPORTS).results] == [old]
        assert store.erase_expired() == int(not erased)


def test_what_is_pinned_is_not_removed_by_its_age(store: SessionMemoryStore) -> None:
    kept, _ = (stored(store, text, ttl_days=None) for text in ("keep me", "old"))
    notes = [store.tagged.store(f"note {number}").memory_id for number in range(3)]
    for number in (kept, notes[0]):
        assert store.pin(number).message.startswith("Pinned")
    execute(store, "update session_memories set created_at = '2020-01-01T00:00:00.000000+00:00'")
    assert store.cleanup_old_memories(30).memories_deleted == 1
    store.cleanup_old_memories(30, dry_run=False)
    assert store.tagged.clear(30, 0).deleted_count == 2
    assert execute(store, "select id from session_memories order by id") == [(kept,), (notes[0],)]
    assert store.get_memory_by_id(kept).memory.pinned is True
    store.unpin(kept)
    assert "pinned" not in store.get_memory_by_id(kept).memory.model_dump()
    store.cleanup_old_memories(30, dry_run=False)
    assert execute(store, "select id from session_memories") == [(notes[0],)]


def test_what_is_pinned_leads_the_context_of_a_task_and_stands_there_once(store: SessionMemoryStore) -> None:
    for number in range(8):
        stored(store, f"report {number}", ttl_days=None)
    first = execute(store, "select min(id) from session_memories")[0][0]
    rule = stored(store, "always test", "system_memory", ttl_days=None)
    for number in (first, rule):
        store.pin(number)
    answer = store.load_session_context_for_task("s")
    assert [entry.id for entry in answer.pinned] == [rule, first]
    assert first not in [entry.id for entry in answer.recent_reports]
    assert next(iter(answer.model_dump(exclude={"success", "message", "error"}))) == "pinned"
    store.unpin(rule)
    store.unpin(first)
    assert "pinned" not in store.load_session_context_for_task("s").model_dump()


def test_a_pinned_memory_expires_and_is_deleted_all_the_same(store: SessionMemoryStore) -> None:
    number = stored(store)
    store.pin(number)
    expire(store, number)
    with pytest.raises(NotFoundError, match="expired"):
        store.get_memory_by_id(number)
    assert store.erase_expired() == 1


def test_a_limited_token_pins_and_amends_in_its_sessions_only(store: SessionMemoryStore) -> None:
    mine, other = stored(store), stored(store, "elsewhere", session_id="other")
    view = store.limited_to(["s"])
    assert view.pin(mine).memory_id == view.amend_memory(mine, title="Mine").memory_id == mine
    for call in (view.pin, view.unpin, lambda number: view.amend_memory(number, title="x")):
        with pytest.raises(NotFoundError, match="There is no memory"):
            call(other)
    with pytest.raises(AccessDeniedError):
        view.erase_expired()
    assert store.get_memory_by_id(other).memory.title != "x"


def test_an_export_keeps_lifetimes_and_pins_and_an_import_leaves_out_what_has_expired(
    store: SessionMemoryStore, tmp_path: Path, settings: Settings
) -> None:
    lasting = stored(store, "lasting", ttl_days=None)
    pinned, gone = stored(store, "pinned"), stored(store, "gone soon")
    store.pin(pinned)
    file = BytesIO()
    assert store.export_memories(file).memories == 3
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert {"expires_at", "pinned"}.isdisjoint(lines[lasting])
    assert lines[pinned]["pinned"] is True
    lines[gone]["expires_at"] = "2026-01-01T00:00:00+00:00"
    changed = BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    with SessionMemoryStore(tmp_path / "other.db", settings, embedder=LatticeEmbedder()) as other:
        result = other.import_memories(changed)
        assert (result.added, result.expired) == (2, 1)
        entry = other.get_memory_by_id(2).memory
        assert (entry.pinned, entry.expires_at) == (True, store.get_memory_by_id(pinned).memory.expires_at)
    expire(store, pinned)
    assert store.export_memories(BytesIO()).memories == 2


def test_the_rules_of_a_policy_are_read_and_explained() -> None:
    assert list(map(str, retention_rules(" working_memory = 30d ;agent:scout=7d; session:tmp-*=2d;"))) == [
        "working_memory=30d",
        "agent:scout=7d",
        "session:tmp-*=2d",
    ]
    for wrong, why in (
        ("report", "is not a rule"),
        ("report=0d", "is not a rule"),
        ("reports=3d", "is not a kind"),
        ("user:x=3d", "is not a kind"),
    ):
        with pytest.raises(ValueError, match=why):
            retention_rules(wrong)


def test_a_scope_counts_what_it_lists(store: SessionMemoryStore) -> None:
    expire(store, stored(store))
    stored(store, "second")
    stored(store, "third", "working_memory")
    for scope in (Scope(), REPORTS, Scope(as_of="any"), Scope(MemoryKind.REPORT, as_of="any")):
        with storage_of(store).read() as reader:
            assert reader.memories.count(scope) == len(reader.memories.ids(scope)) == (1 if scope.kind else 2)
