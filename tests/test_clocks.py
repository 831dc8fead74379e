"""What was stored last is the last, whatever the clocks said that stored it; times are told as they were stored."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from lattice import LatticeEmbedder
from vector_memory.domain import MemoryKind, Project, Scope, SearchOrder, times
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SHOP = Project("/work/shop", owns_memory=True)

Clock = Callable[[timedelta], None]
"""Sets the clock of this process ahead, or back."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    def set_by(difference: timedelta) -> None:
        class Wrong(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> "Wrong":
                return cls.fromtimestamp((datetime.now(UTC) + difference).timestamp(), tz)

        monkeypatch.setattr(times, "datetime", Wrong)

    return set_by


@pytest.fixture
def other(tmp_path: Path, settings: Settings, store: SessionMemoryStore) -> Iterator[SessionMemoryStore]:
    """The memory of `store`, as another process opens it."""
    del store
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as opened:
        yield opened


def work(store: SessionMemoryStore, session: str, **fields: Any) -> None:
    """Store one memory of each kind that a recap, a context or a list tells."""
    metadata = {"project": SHOP.folder}
    for kind in (MemoryKind.INPUT_PROMPT, MemoryKind.WORKING_MEMORY):
        store.store_memory(kind, f"{kind} of {session}", session_id=session, metadata=metadata, **fields)
    for kind in (MemoryKind.SESSION_CONTEXT, MemoryKind.REPORT):
        store.store_memory(kind, f"{kind} of {session}", session_id="all", **fields)


def told(store: SessionMemoryStore) -> list[str]:
    """Return the session that each way to ask for what is newest names."""
    context = store.load_session_context_for_task("all")
    recap = store.past.recap(SHOP, besides="")
    assert context.session_context
    assert recap
    texts = [
        context.session_context.content,
        context.recent_reports[0].content,
        store.search_scoped(Scope(MemoryKind.SESSION_CONTEXT, session_id="all")).results[0].content,
        store.search_scoped(Scope(MemoryKind.WORKING_MEMORY), latest_first=False).results[-1].content,
        store.search_documents(None, Scope(MemoryKind.REPORT)).results[0].content,
        store.search_documents("report", Scope(MemoryKind.REPORT), order=SearchOrder.RECENT).results[0].content,
        store.search_memories(None, Scope(MemoryKind.INPUT_PROMPT)).results[0].content,
        store.get_timeline(Scope(MemoryKind.REPORT)).entries[-1].beginning,
        next(one.session_id for one in store.list_sessions().sessions if one.session_id != "all"),
        str(store.past.last_session(SHOP, besides=None)),
        next(line for line in recap.text.splitlines() if line.startswith("State")),
        next(line for line in recap.text.splitlines() if line.startswith("Last answer")),
    ]
    return [text.rsplit(" ", 1)[-1] for text in texts]


def test_a_clock_that_was_once_a_year_ahead_pins_nothing(
    store: SessionMemoryStore, other: SessionMemoryStore, clock: Clock
) -> None:
    work(store, "before")
    clock(timedelta(days=365))
    work(store, "ahead")
    assert set(told(other)) == {"ahead"}
    clock(timedelta())
    work(other, "after")
    assert set(told(store)) == set(told(other)) == {"after"}
    stored = {
        entry.session_id: entry.created_at for entry in store.get_timeline(Scope(MemoryKind.INPUT_PROMPT)).entries
    }
    assert list(stored) == ["before", "ahead", "after"]
    assert stored["ahead"] > stored["after"]


@pytest.mark.parametrize("hours", [1, -1, -24 * 365])
def test_of_two_machines_whose_clocks_differ_the_one_that_stored_last_is_told(
    store: SessionMemoryStore, other: SessionMemoryStore, clock: Clock, hours: int
) -> None:
    """Whoever asks."""
    for number in range(2):
        for name, machine, difference in (("one", store, timedelta(hours=hours)), ("two", other, timedelta())):
            clock(difference)
            work(machine, f"{name}-{number}")
            for asking, its_clock in ((store, timedelta(hours=hours)), (other, timedelta())):
                clock(its_clock)
                assert set(told(asking)) == {f"{name}-{number}"}


def test_what_is_imported_with_its_old_time_is_not_the_last(store: SessionMemoryStore, clock: Clock) -> None:
    clock(timedelta(days=365))
    work(store, "ahead")
    clock(timedelta())
    work(store, "live")
    work(store, "imported", created_at="2026-01-02T03:04:05+00:00")
    assert set(told(store)) == {"live"}
    work(store, "later")
    assert set(told(store)) == {"later"}


def test_what_is_imported_stands_where_its_time_is(store: SessionMemoryStore) -> None:
    def add(text: str, minutes: float) -> None:
        at = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
        store.store_memory(MemoryKind.INPUT_PROMPT, text, session_id="s", created_at=at)

    add("third", 1)
    add("first", 3)
    add("fifth", 0)
    add("second", 2)
    add("fourth", 0.5)
    listed = store.search_scoped(Scope(MemoryKind.INPUT_PROMPT, session_id="s"), latest_first=False).results
    assert [one.content for one in listed] == ["first", "second", "third", "fourth", "fifth"]


def test_what_is_stored_seconds_after_it_was_written_is_the_last(store: SessionMemoryStore) -> None:
    """As what a hook hands over is, by a machine whose clock is behind."""
    work(store, "before")
    work(store, "after", created_at=(datetime.now(UTC) - timedelta(seconds=5)).isoformat())
    assert set(told(store)) == {"after"}


def test_a_newest_note_is_the_one_that_was_stored_last(store: SessionMemoryStore, clock: Clock) -> None:
    clock(timedelta(days=365))
    store.tagged.store("An old note.")
    clock(timedelta())
    store.tagged.store("A new note.")
    assert [note.content for note in store.tagged.list_recent().results] == ["A new note.", "An old note."]


def test_an_import_of_an_export_keeps_what_was_stored_before_it_in_its_order(
    store: SessionMemoryStore, tmp_path: Path, settings: Settings, clock: Clock
) -> None:
    clock(timedelta(days=365))
    work(store, "ahead")
    clock(timedelta())
    file = BytesIO()
    store.export_memories(file)
    with SessionMemoryStore(tmp_path / "target.db", settings, embedder=LatticeEmbedder()) as target:
        work(target, "here")
        target.import_memories(BytesIO(file.getvalue()))
        work(target, "after")
        assert set(told(target)) == {"after"}
