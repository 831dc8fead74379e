"""What an agent deletes is gone for all agents, and a person can bring it back for a day."""

import io
from pathlib import Path

import pytest

from inside import storage_of
from lattice import LatticeEmbedder
from test_superseding import CSV, LOOKS, PARQUET, QUERY, Look, found_in, reports
from vector_memory.domain import CameFrom, NewMemory, Scope, Way
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import (
    AccessDeniedError,
    DuplicateMemoryError,
    NotFoundError,
    QuotaExceededError,
    ValidationError,
)
from vector_memory.settings import Settings
from vector_memory.storage.queries.portions import Portions
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.copying import copying
from vector_memory.writing.holding import Holding

AGENT = "claude-code"
ADA = "team/ada"


def holding(store: SessionMemoryStore) -> Holding:
    return Holding(storage_of(store))


def deleted(store: SessionMemoryStore) -> list[int]:
    return [one.memory.id for one in holding(store).deleted()]


def let_the_day_pass(store: SessionMemoryStore) -> None:
    with storage_of(store).write() as writer:
        writer.connection.later("update memory_lifecycle set held_until = '2020' where held_until is not null")


def facts(store: SessionMemoryStore, number: int) -> object:
    with storage_of(store).read() as reader:
        (whole,) = Portions(reader).whole([number], bare=True)
    return whole.memory.came_from, whole.evidence


def rows(store: SessionMemoryStore) -> int:
    with storage_of(store).read() as reader:
        return int(reader.connection.fetch_value("select count(*) from session_memories m {exempt:a test}"))


def report(store: SessionMemoryStore, content: str = CSV, **fields: object) -> int:
    return store.store_memory("report", content, session_id="s", **fields).memory_id  # type: ignore[arg-type]


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("as_of", [None, "any", "2100"])
def test_what_an_agent_deletes_looks_deleted_until_a_person_brings_it_back(
    store: SessionMemoryStore, look: Look, as_of: str | None
) -> None:
    old = report(store)
    new = report(store, PARQUET, supersedes=[old])
    before = look(store, as_of)
    store.delete_memory(new, by=AGENT)
    gone = look(store, as_of)
    assert found_in(gone) == {old: []}
    assert not {"pending", "superseded"} & gone.model_dump().keys()
    assert deleted(store) == [new]
    holding(store).accept([new])
    assert found_in(look(store, as_of)) == found_in(before)
    assert deleted(store) == []


def test_an_agent_gets_the_answers_of_a_deletion(store: SessionMemoryStore) -> None:
    number = report(store)
    chunk = store.search_chunks(QUERY, reports(None)).results[0].chunk_id
    assert store.delete_memory(number, by=AGENT).message == f"Deleted report {number} with all its chunks."
    for call in (
        lambda: store.get_memory_by_id(number),
        lambda: store.delete_memory(number, by=AGENT),
        lambda: store.pin(number),
        lambda: store.amend_memory(number, title="New"),
        lambda: store.store_memory("report_observation", "No.", session_id="s", parent_report_id=number),
        lambda: report(store, PARQUET, supersedes=[number]),
    ):
        with pytest.raises(NotFoundError, match=r"There is no (memory|report)"):
            call()
    with pytest.raises(NotFoundError, match=f"There is no chunk {chunk}:"):
        store.expand_chunk_context(chunk)
    assert store.count_memories() == 0
    assert store.get_memory_stats().total_memories == 0
    assert store.list_sessions().total_sessions == 0
    assert store.export_memories(io.BytesIO()).memories == 0


def test_a_clean_up_by_an_agent_counts_and_is_undone_by_session_or_agent(store: SessionMemoryStore) -> None:
    for session, agent in (("s", "main"), ("s", "scout"), ("t", "main")):
        store.store_memory("report", CSV, session_id=session, agent_id=agent, created_at="2020-01-01T08:00Z")
    cleaned = store.cleanup_old_memories(90, dry_run=False, by=AGENT)
    assert (cleaned.memories_deleted, cleaned.chunks_deleted) == (3, 3)
    assert store.cleanup_old_memories(90, dry_run=False, by=AGENT).memories_deleted == 0
    for session, agent, expected in (
        ("s", None, [1, 2]),
        (None, "main", [1, 3]),
        ("t", "scout", []),
        (None, AGENT, [1, 2, 3]),
    ):
        assert [one.memory.id for one in holding(store).deleted(session, agent)] == expected


def test_notes_that_an_agent_deletes_or_clears_can_be_brought_back(store: SessionMemoryStore) -> None:
    ids = [store.tagged.store(f"Note {number}.", "note", ["x"]).memory_id for number in range(3)]
    store.tagged.delete(ids[0], by=AGENT)
    assert store.tagged.clear(0, 1, by=AGENT).remaining_count == 1
    assert len(deleted(store)) == 2
    assert store.tagged.stats().total_memories == 1
    holding(store).accept(deleted(store))
    assert store.tagged.stats().total_memories == 3


def test_when_the_day_is_over_it_is_erased_and_cannot_be_brought_back(store: SessionMemoryStore) -> None:
    number = report(store)
    store.delete_memory(number, by=AGENT)
    assert store.erase_expired() == 0
    let_the_day_pass(store)
    assert deleted(store) == []
    with pytest.raises(NotFoundError, match="is not held back"):
        holding(store).accept([number])
    assert (rows(store), store.erase_expired(), rows(store)) == (1, 1, 0)


@pytest.mark.parametrize("hours", [24, 0])
def test_what_a_person_deletes_and_without_a_time_what_an_agent_deletes_is_gone_at_once(
    tmp_path: Path, settings: Settings, hours: int
) -> None:
    settings = settings.model_copy(update={"undo_hours": hours})
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        number = report(store)
        said = store.delete_memory(number, by=None if hours else AGENT).message
        assert said == f"Deleted report {number} with all its chunks."
        assert (rows(store), deleted(store)) == (0, [])


def test_a_deleted_text_can_be_stored_again_and_is_then_not_brought_back_twice(store: SessionMemoryStore) -> None:
    number = report(store)
    store.delete_memory(number, by=AGENT)
    again = report(store)
    with pytest.raises(DuplicateMemoryError):
        report(store)
    with pytest.raises(ValidationError, match="was stored again"):
        store.holding.accept_one(number)
    assert holding(store).accept([number]) == []
    store.delete_memory(again, by=AGENT)
    assert holding(store).accept([number, again]) == [again]
    assert (deleted(store), rows(store)) == ([number], 2)


def test_what_an_agent_deletes_and_stores_many_times_is_brought_back_once(store: SessionMemoryStore) -> None:
    for _ in range(100):
        store.delete_memory(report(store), by=AGENT)
    assert holding(store).accept(deleted(store)) == [100]
    assert (store.count_memories(), len(deleted(store))) == (1, 99)


def test_a_prompt_that_was_said_at_other_times_too_is_brought_back(store: SessionMemoryStore) -> None:
    said = [
        NewMemory.of("input_prompt", "Continue.", session_id="s", created_at=f"2026-01-0{day}T08:00Z")
        for day in (1, 2, 3)
    ]
    store.batches.store(said)
    for number in (1, 2):
        store.delete_memory(number, by=AGENT)
    assert holding(store).accept([1, 2]) == [1, 2]
    assert store.count_memories() == 3


def test_a_source_that_is_read_again_does_not_bring_a_deleted_text_back_nor_after_it_was_erased(
    store: SessionMemoryStore,
) -> None:
    said = NewMemory.of("input_prompt", "Where is it?", session_id="s", created_at="2026-01-01T08:00Z")
    later = NewMemory.of("report", CSV, session_id="s", created_at="2026-01-01T08:00Z")
    store.batches.store([said, later])
    for number in (1, 2):
        store.delete_memory(number, by=AGENT)
    for _ in range(2):
        found = store.batches.new_among([said, later])
        assert (found.new, found.deleted) == ([], 2)
        assert store.batches.store([said, later]) == []
        let_the_day_pass(store)
        store.erase_expired()
    assert rows(store) == 0


def test_what_was_brought_back_counts_as_stored_not_as_deleted(store: SessionMemoryStore) -> None:
    said = NewMemory.of("input_prompt", "Where is it?", session_id="s", created_at="2026-01-01T08:00Z")
    store.batches.store([said])
    store.delete_memory(1, by=AGENT)
    holding(store).accept([1])
    with storage_of(store).read() as reader:
        assert reader.deletions.get_all().rows == []
    assert store.batches.new_among([said]) == ([], 0)


def test_what_was_said_again_after_the_deletion_is_stored_when_the_day_is_over(store: SessionMemoryStore) -> None:
    store.store_memory("report", CSV, session_id="s")
    store.delete_memory(1, by=AGENT)
    with storage_of(store).read() as reader:
        now = reader.now()
    let_the_day_pass(store)
    store.erase_expired()
    said = [NewMemory.of("report", CSV, session_id="s", created_at=at) for at in ("2026-01-01T08:00Z", now)]
    assert store.batches.new_among(said).new == said[1:]


def test_a_deleted_memory_takes_no_room(store: SessionMemoryStore) -> None:
    store.limit(1)
    number = report(store)
    with pytest.raises(QuotaExceededError):
        report(store, PARQUET)
    store.delete_memory(number, by=AGENT)
    report(store, PARQUET)


def test_a_limited_reader_deletes_only_what_it_may_see(store: SessionMemoryStore) -> None:
    number = report(store)
    other = store.limited_to(["t"])
    with pytest.raises(NotFoundError):
        other.delete_memory(number, by=AGENT)
    store.limited_to(["s"]).delete_memory(number, by=AGENT)
    assert deleted(store) == [number]
    with pytest.raises(AccessDeniedError):
        deleted(other)
    with pytest.raises(NotFoundError, match="There is no memory"):
        other.get_memory_by_id(number)


def test_a_quarantine_takes_over_what_an_agent_deleted(store: SessionMemoryStore) -> None:
    number = report(store)
    store.delete_memory(number, by=AGENT)
    holding(store).quarantine(holding(store).touched(session="s"), "why")
    assert deleted(store) == []
    let_the_day_pass(store)
    assert store.erase_expired() == 0
    assert [one.held.held for one in holding(store).held()] == ["quarantined"]


def test_people_see_what_agents_deleted_in_their_review_and_can_erase_it(store: SessionMemoryStore) -> None:
    number = report(store)
    store.delete_memory(number, by=AGENT)
    assert "held" not in store.review().model_dump()
    (line,) = store.review_for_people(None, 20).held
    assert (line.held, line.held_for, line.id) == ("deleted", AGENT, number)
    assert line.held_until is not None
    store.holding.reject_one(number)
    assert rows(store) == 0


def test_an_export_lacks_a_deleted_memory_and_imported_it_stays_deleted_for_sources(store: SessionMemoryStore) -> None:
    said = NewMemory.of("input_prompt", "Where is it?", session_id="s", created_at="2026-01-01T08:00Z")
    store.batches.store([said])
    store.delete_memory(1, by=AGENT)
    stream = io.BytesIO()
    assert store.export_memories(stream).memories == 0
    assert b"Where is it" not in stream.getvalue()
    stream.seek(0)
    store.holding.reject_one(1)
    store.import_memories(stream)
    assert store.batches.new_among([said]) == ([], 1)
    assert store.search_scoped(Scope()).total_results == 0


def test_a_copy_keeps_how_memories_came_what_is_held_until_when_and_the_evidence(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    came_from = CameFrom(by=Way.TOOL, client="gemini", token=ADA)
    evidence = [{"path": "src/auth.py", "lines": "42"}]
    for content in (CSV, PARQUET, "# Other\n\nText."):
        report(store, content, came_from=came_from, sources=["https://a.example"], evidence=evidence)
    store.delete_memory(1, by=AGENT)
    holding(store).quarantine([2], "why")
    with SessionMemoryStore(tmp_path / "copy.db", store.settings, embedder=LatticeEmbedder()) as copy:
        with copying(storage_of(store), storage_of(copy)) as running:
            running.copy_memories()
            running.complete()
        assert [facts(copy, number) for number in (1, 2, 3)] == [facts(store, number) for number in (1, 2, 3)]
        with storage_of(store).read() as mine, storage_of(copy).read() as theirs:
            assert theirs.lifecycle.held() == mine.lifecycle.held()
        holding(copy).accept([1])
        assert found_in(copy.search_scoped(reports(None))).keys() == {1, 3}
