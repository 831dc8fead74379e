"""Words that an earlier release indexed by other rules are indexed again, whatever happens meanwhile."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters import SERVER, server_url
from engine_memories import ENGINES, Engine, add, found_by_words, new_memory
from engines import execute
from forked import Forked
from old_words import add_old
from old_words import index_again as finish
from vector_memory.domain import MemoryKind
from vector_memory.storage.base import Storage
from vector_memory.storage.queries import keywords
from vector_memory.texts.terms import RULES
from vector_memory.upkeep import backfill, copying
from vector_memory.upkeep.doctor.agreement import are_words_correct, outdated
from vector_memory.upkeep.doctor.report import Level

PROMPT = MemoryKind.INPUT_PROMPT
BLOCKS, EACH = 5, 2
"""The blocks of the prompts, and how many prompts each of them has."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "UNITS_PER_BLOCK", EACH)


@pytest.fixture
def ids(storage: Storage) -> list[int]:
    """Prompts in several blocks, as an earlier release left them."""
    return add_old(storage, *(prompt(f"s{number}") for number in range(BLOCKS * EACH)))


def prompt(session_id: str) -> Any:
    return new_memory("Why does it stop?", PROMPT, title="Outage of the ledger", session_id=session_id)


def found(storage: Storage, query: str = "ledger", kind: MemoryKind = PROMPT) -> list[int]:
    """Return the ids of the memories that have one of the words."""
    return found_by_words(storage, query, kind)


def is_right(storage: Storage) -> bool:
    """Return whether all words are indexed by the rules of this release."""
    with storage.read() as reader:
        return not reader.upkeep.portions.count_outdated() and are_words_correct(reader)


def test_outdated_words_are_those_of_the_text_until_they_are_indexed_again(storage: Storage, ids: list[int]) -> None:
    assert (found(storage), found(storage, "stop")) == ([], ids)
    finish(storage)
    assert (found(storage), found(storage, "stop")) == (ids, ids)
    assert is_right(storage)


def test_chunks_are_found_by_their_headings_after_the_upgrade(storage: Storage) -> None:
    (report,) = add_old(storage, new_memory("0123456789" * 3, title="Title"))
    assert found(storage, "1 2", MemoryKind.REPORT) == []
    finish(storage)
    assert found(storage, "1 2", MemoryKind.REPORT) == [report]
    assert is_right(storage)


def test_what_is_stored_and_deleted_during_the_upgrade_is_indexed_once_or_not_at_all(
    engine: Engine, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = engine.open()
    added: list[int] = []
    leaving = [ids[:1], ids[3:4], ids[4:6], ids[1:2], ids[9:]]

    def meanwhile(_seconds: float) -> None:
        if len(added) < BLOCKS:
            added.append(add(other, prompt(f"t{len(added)}")))
            with other.write() as writer:
                for memory_id in leaving[len(added) - 1]:
                    writer.delete(memory_id)

    monkeypatch.setattr(backfill, "time", SimpleNamespace(sleep=meanwhile, time=time.time, monotonic=time.monotonic))
    finish(engine.storage)
    assert found(engine.storage) == [ids[2], *ids[6:9], *added]
    assert is_right(engine.storage)


def test_several_processes_may_index_at_once(engine: Engine, ids: list[int]) -> None:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(finish, [engine.open() for _ in range(3)]))
    assert found(engine.storage) == ids
    assert is_right(engine.storage)


def test_a_process_that_is_killed_loses_nothing_and_the_next_one_goes_on(engine: Engine, ids: list[int]) -> None:
    name = next(name for name, open_at in ENGINES.items() if open_at is engine.open_at)
    env = os.environ | ({SERVER: server_url()} if name == "postgres" else {})
    child = Forked("-m", "old_words", name, engine.place, env=env, text=True)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    with engine.storage.read() as reader:
        assert reader.upkeep.portions.count_outdated() == (BLOCKS - 2) * EACH
    assert found(engine.storage, "stop") == ids
    finish(engine.storage)
    assert found(engine.storage) == ids
    assert is_right(engine.storage)


def test_a_rebuild_of_all_words_leaves_nothing_outdated(storage: Storage, ids: list[int]) -> None:
    with storage.write() as writer:
        writer.keywords.clear()
        writer.keywords.fill()
    assert found(storage) == ids
    assert is_right(storage)


def test_the_doctor_tells_of_outdated_words_and_does_not_take_them_for_damage(storage: Storage, ids: list[int]) -> None:
    with storage.read() as reader:
        assert are_words_correct(reader)
        (finding,) = outdated(reader.upkeep.portions.count_outdated())
    assert (finding.state, finding.fixable) == (Level.WARNING, True)
    assert f"The words of {len(ids)} memories were indexed by the rules of an earlier release" in finding.message


def test_a_block_of_a_memory_that_has_lost_a_chunk_is_left_to_the_doctor(storage: Storage, ids: list[int]) -> None:
    (report,) = add_old(storage, new_memory("0123456789" * 3, session_id="t"))
    execute(storage, f"delete from memory_chunks where parent_id = {report} and chunk_index = 1")
    finish(storage)
    assert found(storage) == ids
    with storage.read() as reader:
        assert reader.upkeep.portions.count_outdated() == 0
        assert reader.upkeep.portions.miscounted() == [report]


def test_a_copy_is_as_outdated_as_its_source_and_can_be_finished(
    storage: Storage, ids: list[int], tmp_path: Path
) -> None:
    add(storage, prompt("new"))
    execute(storage, f"update keyword_blocks set rules = {RULES} where id = 2")
    for name, open_at in ENGINES.items():
        (place := tmp_path / name).mkdir()
        with closing(open_at(place)) as target:
            with copying.copying(storage, target) as running:
                running.copy_memories()
                running.complete()
            with target.read() as reader:
                assert reader.upkeep.portions.count_outdated() == len(ids) - EACH
            assert found(target) == found(storage)
            finish(target)
            assert found(target) == [*ids[:EACH], *ids[2 * EACH :], ids[-1] + 1]
