"""What every engine promises while several processes write: no id is seen late, and no cursor has a gap."""

import os
from collections.abc import Iterator

import pytest

from clusters import SERVER, server_url
from engine_memories import ENGINES, Engine, add, new_memory
from engine_writer import EACH, THREADS
from forked import Forked
from vector_memory.domain import Scope
from vector_memory.storage.records import Cursor

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
            found = [memory.id for memory in reader.memories.changes_after(cursor, Scope(), 5)]
            if found:
                cursor = type(cursor)(found[-1])
            elif is_over:
                assert reader.cursor() == cursor
                break
        seen += found
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
