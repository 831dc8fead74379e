"""What has expired is returned by no read from that moment on, and is erased soon; what is pinned stays."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from engines import counts, execute
from inside import storage_of
from lattice import LatticeEmbedder
from vector_memory.domain import MemoryKind, Page, Project, Scope
from vector_memory.errors import AccessDeniedError, NotFoundError, ValidationError
from vector_memory.indexing import background
from vector_memory.settings import Settings
from vector_memory.settings.retention import rules_of
from vector_memory.store import SessionMemoryStore
from waiting import at_once, eventually

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
    assert list(map(str, rules_of(" working_memory = 30d ;agent:scout=7d; session:tmp-*=2d;"))) == [
        "working_memory=30d",
        "agent:scout=7d",
        "session:tmp-*=2d",
    ]
    for wrong, why in (
        ("report", "is no rule"),
        ("report=0d", "is no rule"),
        ("reports=3d", "is no kind"),
        ("user:x=3d", "is no kind"),
    ):
        with pytest.raises(ValueError, match=why):
            rules_of(wrong)


def test_a_scope_counts_what_it_lists(store: SessionMemoryStore) -> None:
    expire(store, stored(store))
    stored(store, "second")
    stored(store, "third", "working_memory")
    for scope in (Scope(), REPORTS, Scope(as_of="any"), Scope(MemoryKind.REPORT, as_of="any")):
        with storage_of(store).read() as reader:
            assert reader.memories.count(scope) == len(reader.memories.ids(scope)) == (1 if scope.kind else 2)
