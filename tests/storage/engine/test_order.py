"""What every engine promises about order: cursors miss nothing, whichever process stores."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters import SERVER, server_url
from engine_memories import ENGINES, Engine, add, new_memory
from engine_writer import EACH, THREADS
from forked import Forked
from vector_memory.domain import Scope
from vector_memory.errors import ClosedMemoryError, ValidationError
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Cursor


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["add", "delete", "look"])), max_size=12))
def test_a_reader_that_follows_cursors_sees_every_memory_once_whichever_handle_stores(
    engine: Engine, steps: list[tuple[int, str]]
) -> None:
    while len(engine.opened) < 2:
        engine.open()
    with engine.storage.read() as reader:
        cursor = reader.cursor()
    waiting: list[int] = []
    largest = cursor
    for which, step in steps:
        storage = engine.opened[which]
        if step == "add":
            waiting.append(add(storage, new_memory("text")))
            assert Cursor(waiting[-1]) > largest
            largest = Cursor(waiting[-1])
        elif step == "delete" and waiting:
            with storage.write() as writer:
                writer.delete(waiting.pop())
        else:
            with storage.read() as reader:
                assert reader.cursor() == largest
                found = reader.memories.changes(Scope(session_id="s", since_id=cursor.memory_id), 2)
                assert [memory.id for _, memory in found] == waiting[:2]
                assert reader.memories.changes(Scope(session_id="t", since_id=cursor.memory_id), 2) == []
            waiting = waiting[2:]
            cursor = found[-1][0] if waiting else largest


def test_a_cursor_reads_what_it_writes() -> None:
    cursor = Cursor(12)
    assert Cursor.parse("since", str(cursor)) == Cursor.parse("since", 12) == cursor
    assert Cursor() < cursor < Cursor(13)
    with pytest.raises(ValidationError, match="since"):
        Cursor.parse("since", "now")


def test_a_reader_sees_one_snapshot_whatever_others_commit(engine: Engine) -> None:
    other = engine.open()
    first = add(engine.storage, new_memory("first"))
    with engine.storage.read() as reader:
        before = reader.cursor()
        add(other, new_memory("second"))
        with other.write() as writer:
            writer.delete(first)
        assert reader.memories.ids(Scope()) == [first]
        assert reader.cursor() == before
        assert reader.memories.get(first).content == "first"
        with engine.storage.read() as newer:
            assert newer.memories.ids(Scope()) == [first + 1]


def test_a_block_that_raises_changes_nothing(storage: Storage) -> None:
    kept = add(storage, new_memory("kept"))
    with storage.read() as reader:
        before = reader.cursor()
    with suppress(RuntimeError), storage.write() as writer:
        writer.delete(kept)
        writer.count_tag("tag", None, "2026")
        raise RuntimeError
    with storage.read() as reader:
        assert reader.memories.ids(Scope()) == [kept]
        assert reader.cursor() == before
        assert reader.tags.canonical() == []


def test_everything_is_still_stored_when_the_memory_is_reopened(engine: Engine) -> None:
    memory_id = add(engine.storage, new_memory("kept"))
    engine.storage.close()
    engine.storage.close()
    with engine.open().read() as reader:
        assert reader.memories.get(memory_id).content == "kept"


def test_a_closed_memory_gives_no_readers_and_no_writers(storage: Storage) -> None:
    storage.require_time_to_write()
    assert not storage.read_only
    storage.close()
    with pytest.raises(ClosedMemoryError), storage.read():
        pass
    with pytest.raises(ClosedMemoryError), storage.write():
        pass
    with pytest.raises(ClosedMemoryError):
        storage.require_time_to_write()


PROCESSES = 4


@pytest.fixture
def writers(engine: Engine) -> Iterator[list[Forked]]:
    """Processes that add memories with several threads each."""
    name = next(name for name, open_at in ENGINES.items() if open_at is engine.open_at)
    env = dict(os.environ)
    if name == "postgres":
        env[SERVER] = server_url()
    started = [
        Forked("-m", "engine_writer", name, engine.place, f"process {number}", env=env, text=True)
        for number in range(PROCESSES)
    ]
    yield started
    for writer in started:
        writer.kill()


def test_a_reader_that_follows_a_cursor_misses_nothing_that_processes_write(
    engine: Engine, writers: list[Forked]
) -> None:
    cursor = Cursor(0)
    seen: list[int] = []
    is_over = False
    while True:
        with engine.storage.read() as reader:
            changes = reader.memories.changes(Scope(since_id=cursor.memory_id), 5)
            if changes:
                cursor = changes[-1][0]
            elif is_over:
                assert reader.cursor() == cursor
                break
        seen += [memory.id for _, memory in changes]
        is_over = all(writer.poll() is not None for writer in writers)
    acknowledged = [int(number) for writer in writers for number in writer.communicate()[0].split()]
    assert seen == sorted(acknowledged)
    assert len(set(seen)) == PROCESSES * THREADS * EACH


def test_the_version_changes_with_every_commit_of_any_handle_and_only_then(engine: Engine) -> None:
    other = engine.open()
    versions = [engine.storage.version()]
    for number in range(3):
        memory_id = add(other, new_memory(str(number)))
        versions.append(engine.storage.version())
        assert engine.storage.version() == versions[-1]
    with other.write() as writer:
        writer.record_access([memory_id], "2027")
    versions.append(engine.storage.version())
    assert len(set(versions)) == len(versions)
