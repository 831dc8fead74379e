"""Limits, health, clean-up, damage and copies of tagged memories."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engines import execute
from inside import storage_of
from memory_files import change, create_file
from paging import pages
from vector_memory.domain import ANY, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import MemoryStorageError, ValidationError
from vector_memory.maintenance.backup import back_up
from vector_memory.sessions.deletion import Deletion
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.memories import health_of


def fill(store: SessionMemoryStore, ages: Sequence[int], uses: Sequence[int]) -> None:
    """Store a note for each age in days, used a given number of times: ids from 1 on."""
    for number, (age, used) in enumerate(zip(ages, uses, strict=True), start=1):
        store.tagged.store(f"Note {number}.")
        stored_at = (datetime.now(UTC) - timedelta(days=age)).isoformat(timespec="microseconds")
        sql = "update session_memories set created_at = ?, access_count = ? where id = ?"
        execute(store, sql, stored_at, used, number)


def supersede(store: SessionMemoryStore, newer: int, older: int) -> None:
    with storage_of(store).write() as writer:
        writer.supersede(newer, [older])


def stored(store: SessionMemoryStore) -> set[int]:
    """Return all ids, also of what is superseded."""
    with storage_of(store).read() as reader:
        return set(reader.memories.ids(Scope(as_of=ANY)))


def kept(store: SessionMemoryStore) -> set[int]:
    return {memory.id for memory in store.tagged.list_recent(50).results}


@pytest.mark.sqlite("compares with the size of the file")
def test_statistics_say_how_much_there_is_and_how_much_room_is_left(
    toy_store: SessionMemoryStore, tmp_path: Path
) -> None:
    fill(toy_store, [0, 3, 6, 8], [0, 0, 0, 0])
    toy_store.tagged.store("A bug.", "bug")
    stats = toy_store.tagged.stats()
    assert (stats.total_memories, stats.memory_limit, stats.usage_percentage) == (5, 20, 25.0)
    assert stats.categories == {"bug-fix": 1, "other": 4}
    assert stats.recent_week_count == 4
    assert stats.health_status == "healthy"
    toy_store.close()  # which writes its log into the file
    assert stats.database_size_mb == pytest.approx((tmp_path / "toy.db").stat().st_size / 1e6, abs=0.01)


@pytest.mark.parametrize(
    ("usage", "unindexed", "health"),
    [(0, 0, "healthy"), (79.9, 0, "healthy"), (80, 0, "warning"), (10, 1, "warning"), (95, 0, "critical")],
)
def test_health_worsens_as_the_memory_fills(usage: float, unindexed: int, health: str) -> None:
    assert health_of(usage, unindexed) == health


def test_a_full_memory_refuses_notes_with_advice_until_there_is_room(toy_store: SessionMemoryStore) -> None:
    fill(toy_store, [40] * 20, [0] * 20)
    with pytest.raises(MemoryStorageError, match=r"^Memory limit reached.* clear_old_memories"):
        toy_store.tagged.store("One more.", tags=["new tag"])
    assert toy_store.tags.canonical().tags == []
    toy_store.store_memory("report", "Reports have a life of their own.", session_id="s")
    assert toy_store.tagged.clear(30, 19).deleted_count == 1
    toy_store.tagged.store("One more.", tags=["new tag"])


def test_the_default_and_the_maximum_limit_are_as_specified() -> None:
    assert Settings().memory_limit == 10_000
    assert Settings(memory_limit=10_000_000).memory_limit == 10_000_000
    with pytest.raises(ValueError, match="memory_limit"):
        Settings(memory_limit=10_000_001)


SEVEN = ([90, 80, 70, 60, 50, 5, 1], [9, 0, 3, 0, 0, 0, 0])
CLEAN_UPS: dict[str, tuple[tuple[list[int], list[int]], dict[str, int], int, set[int], str]] = {
    "what is old and was read least": (SEVEN, {"days_old": 30, "max_to_keep": 5}, 2, {1, 3, 5, 6, 7}, ""),
    "more of it": (SEVEN, {"days_old": 30, "max_to_keep": 3}, 4, {1, 6, 7}, ""),
    "nothing newer": (
        ([31, 29, 2], [5, 0, 0]),
        {"days_old": 30, "max_to_keep": 0},
        1,
        {2, 3},
        "newer than days_old (30)",
    ),
    "nothing of a thousand": (([400, 300], [0, 0]), {}, 0, {1, 2}, "max_to_keep"),
    "nothing in a dry run": (([40, 40], [0, 0]), {"days_old": 30, "max_to_keep": 1, "dry_run": True}, 1, {1, 2}, ""),
}
"""The ages and reads of notes, what is asked for, how many are deleted, which stay, and what is said."""


@pytest.mark.parametrize(("notes", "asked", "deleted", "left", "said"), CLEAN_UPS.values(), ids=CLEAN_UPS)
def test_a_clean_up_deletes(
    toy_store: SessionMemoryStore, notes: tuple[list[int], list[int]], asked: dict[str, int], deleted: int,
    left: set[int], said: str,
) -> None:  # fmt: skip
    fill(toy_store, *notes)
    answer = toy_store.tagged.clear(**asked)
    assert answer.deleted_count == deleted
    assert kept(toy_store) == left
    assert asked.get("dry_run") or answer.remaining_count == len(left)
    assert said in str(answer.message)


@pytest.mark.parametrize(("keep", "left"), [(3, {2, 3, 4}), (2, {3, 4}), (1, {4}), (0, set())])
def test_a_clean_up_deletes_what_a_note_supersedes_before_it(
    toy_store: SessionMemoryStore, keep: int, left: set[int]
) -> None:
    fill(toy_store, ages=[90, 90, 90, 90], uses=[9, 9, 0, 1])
    supersede(toy_store, 3, 2)
    supersede(toy_store, 2, 1)
    toy_store.tagged.clear(days_old=30, max_to_keep=keep)
    assert stored(toy_store) == left


def test_a_clean_up_leaves_a_note_that_supersedes_one_that_stays(toy_store: SessionMemoryStore) -> None:
    fill(toy_store, ages=[1, 90, 90], uses=[0, 0, 9])
    supersede(toy_store, 2, 1)
    answer = toy_store.tagged.clear(days_old=30, max_to_keep=0)
    assert stored(toy_store) == {1, 2}
    assert "or supersede what stays" in str(answer.message)


def test_a_clean_up_counts_the_remaining_notes_although_another_process_deletes_some(
    toy_store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(toy_store, ages=[90, 80, 70], uses=[0, 0, 0])
    delete_each = Deletion.delete_each

    def late(deletion: Deletion, memory_ids: Sequence[int]) -> tuple[int, int]:
        monkeypatch.undo()
        with SessionMemoryStore(tmp_path / "toy.db", embedder=ToyEngine()) as other:
            other.tagged.clear(days_old=30, max_to_keep=1)
        return delete_each(deletion, memory_ids)

    monkeypatch.setattr(Deletion, "delete_each", late)
    answer = toy_store.tagged.clear(days_old=30, max_to_keep=1)
    assert (answer.deleted_count, answer.remaining_count) == (0, 1)


@pytest.mark.parametrize(("days_old", "max_to_keep"), [(-1, 1), (1, -1), (10**6, 1), (1, 10**8)])
def test_a_clean_up_refuses_invalid_arguments(toy_store: SessionMemoryStore, days_old: int, max_to_keep: int) -> None:
    with pytest.raises(ValidationError, match="integer from 0"):
        toy_store.tagged.clear(days_old, max_to_keep)


@pytest.mark.sqlite("PostgreSQL erases with VACUUM")
def test_deleted_text_is_erased_from_the_file_but_its_tags_are_not(
    toy_store: SessionMemoryStore, tmp_path: Path
) -> None:
    """A canonical tag is vocabulary and outlives its notes (docs/tagged.md)."""
    toy_store.tagged.store("The xylophone is in the attic.", tags=["instruments"])
    toy_store.tagged.delete(1)
    toy_store.close()
    data = (tmp_path / "toy.db").read_bytes()
    assert b"xylophone" not in data
    assert b"instruments" in data


def test_lists_of_tags_continue_from_an_offset_when_they_do_not_fit(tmp_path: Path) -> None:
    settings = Settings(max_response_tokens=500)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        for number in range(60):
            store.tagged.store(f"Note {number}.", tags=[f"subject number {number}"])
        for tool, name in (
            ("unique", "tags"),
            ("canonical", "tags"),
            ("frequencies", "frequencies"),
            ("weights", "weights"),
        ):
            seen: list[object] = []
            for answer in pages(getattr(store.tags, tool)):
                assert len(answer.model_dump_json()) < 500 * 3 + 200
                seen += list(getattr(answer, name))
            assert len(seen) == answer.total == 60


@pytest.mark.sqlite("fills the file")
def test_tags_beyond_the_ten_thousandth_can_be_read(toy_store: SessionMemoryStore, tmp_path: Path) -> None:
    create_file(tmp_path / "toy.db", 384)
    change(
        tmp_path / "toy.db",
        """
        with recursive counted(n) as (select 1 union all select n + 1 from counted where n < 10010)
        insert into canonical_tags (tag, frequency, created_at)
            select printf('subject %05d', n), 1, '2026-01-01' from counted
        """,
    )
    answer = toy_store.tags.canonical(10_005)
    assert [entry.tag for entry in answer.tags] == [f"subject {number:05}" for number in range(10_006, 10_011)]
    assert answer.next_offset is None


def test_content_that_does_not_fit_can_be_continued_by_offset(tmp_path: Path) -> None:
    settings = Settings(max_response_tokens=500)
    text = " ".join(f"word{number}" for number in range(900))
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine()) as store:
        store.tagged.store(text)
        parts, offset = [], 0
        while True:
            answer = store.tagged.get(1, offset)
            parts.append(answer.memory.content)
            if answer.memory.content_end is None:
                break
            assert f"get_by_memory_id and offset={answer.memory.content_end}" in str(answer.message)
            offset = answer.memory.content_end
        assert "get_by_memory_id" in str(store.tagged.search("word1").message)
    assert len(parts) > 1
    assert "".join(parts) == text


@pytest.mark.sqlite("only files have backups of our own")
def test_a_backup_contains_tagged_memories_and_their_vocabulary(toy_store: SessionMemoryStore, tmp_path: Path) -> None:
    toy_store.tagged.store("One.", "bug", ["laravel"])
    back_up(tmp_path / "toy.db", tmp_path / "copy.db")
    with SessionMemoryStore(tmp_path / "copy.db", embedder=ToyEngine()) as copy:
        assert copy.tagged.search("one", tags=["laravel"], category="bug").count == 1
        assert copy.tags.frequencies().frequencies == {"laravel": 1}
