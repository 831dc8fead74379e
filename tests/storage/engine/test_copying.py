"""A memory is copied from any engine to any engine: bit by bit, with its ids, times and vectors."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_memories import ENGINES, MODEL, OTHER_MODEL, Engine, add, content_hash, derived, new_memory, unit_vector
from vector_memory.domain import TRAITS, Fingerprint, MemoryKind, Scope
from vector_memory.errors import ValidationError
from vector_memory.storage.base import Storage, WholeMemory
from vector_memory.storage.queries.keywords import KeywordIndex, WordBlock
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import Embedded, History, Links
from vector_memory.upkeep import copying
from vector_memory.upkeep.copying import CopiedMemories


class Pair:
    """A memory to copy, and an empty one."""

    def __init__(self, source: Engine, target: Engine) -> None:
        self.source, self.target = source.open(), target.open()

    def run(self) -> CopiedMemories:
        with copying.copying(self.source, self.target) as running:
            copied = running.copy_memories()
            running.complete()
        return copied


@pytest.fixture(params=list(permutations(ENGINES, 2)), ids="-to-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    engines = []
    for number, name in enumerate(request.param):
        (place := tmp_path / f"{number}").mkdir()
        engines.append(Engine(ENGINES[name], place, []))
    yield Pair(*engines)
    for engine in engines:
        for storage in engine.opened:
            storage.close()


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "MEMORIES_AT_ONCE", 4)
    monkeypatch.setattr(copying, "BLOCKS_AT_ONCE", 2)


METADATA = {"né": [1, None, {"a": 1.5}], "zero\0": "\0", "big": 2**63, "parent_report_id": "1", "\u2028": True}


def fill(storage: Storage, count: int = 14) -> None:
    """Store memories of all kinds, some without vectors, in three sessions; read some, delete some, also the last."""
    kinds = [MemoryKind.REPORT, MemoryKind.INPUT_PROMPT, MemoryKind.KNOWLEDGE_BASE, MemoryKind.TAGGED]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        fields = {"session_id": f"s{number % 3}"} if TRAITS[kind].session_scoped else {}
        new = new_memory(
            f"Word{number} naïve 数据 \N{OLD ITALIC LETTER A} \u2400 and words " * (number % 3 + 1), kind, **fields,
            session_iter=number % 2, task_code=None if number % 2 else "t", title="Title",
            description="It's" if number % 3 else None, tags=["a", f"b{number}"], metadata=METADATA
        )  # fmt: skip
        add(storage, new, model=None if number % 5 == 4 else MODEL, at=f"2026-01-{number + 1:02}T00:00:00.000001+00:00")
    silent = new_memory("\u200b", MemoryKind.INPUT_PROMPT)
    nothing = replace(derived(silent), embedded=Embedded([], np.zeros((0, MODEL.dimensions), "f4"), MODEL))
    with storage.write() as writer:
        writer.add_memory(silent, nothing, content_hash=content_hash(silent), history=History(*["2026-01-01"] * 3))
    add(storage, new_memory("the last one"))
    with storage.write() as writer:
        for tag, vector in {"t1": unit_vector("t1"), "t2": None, "t0": unit_vector("t0")}.items():
            writer.count_tag(tag, vector, "2026-01-01")
        writer.count_tag("t2", None, "2026-01-02")
        writer.record_access([1, 1, 2], "2026-02-02")
        for memory_id in (3, 6, max(writer.memories.ids(Scope()))):
            writer.delete(memory_id)
        writer.supersede(9, [1, 5])
        writer.supersede(11, [9])
        writer.expire(11, "2099-01-01")
        writer.pin(2, pinned=True)


def memories_in(storage: Storage) -> list[WholeMemory]:
    with storage.read() as reader:
        return reader.upkeep.portions.memories(0, 1_000)


def blocks_in(storage: Storage) -> list[WordBlock]:
    with storage.read() as reader:
        return reader.upkeep.portions.blocks(0, 1_000)


def require_equal(source: Storage, target: Storage) -> None:
    mine, others = memories_in(source), memories_in(target)
    assert [one.memory for one in mine] == [one.memory for one in others]
    assert all(one.equals(other) for one, other in zip(mine, others, strict=True))
    assert blocks_in(source) == blocks_in(target)
    with source.read() as reader, target.read() as copy:
        assert copy.cursor() == reader.cursor()
        assert copy.last_ids() == reader.last_ids()
        assert copy.tags.canonical() == reader.tags.canonical()
        tags, copied = reader.tags.vectors_of(MODEL.dimensions), copy.tags.vectors_of(MODEL.dimensions)
        assert tags.tags == copied.tags
        assert np.array_equal(tags.vectors, copied.vectors)
        assert copy.vectors.fingerprint() == reader.vectors.fingerprint()
        assert copy.upkeep.portions.lifetimes() == reader.upkeep.portions.lifetimes()
        assert copy.deletions.get_all() == reader.deletions.get_all()
        assert replace(copy.sessions.statistics(), database_bytes=0) == replace(
            reader.sessions.statistics(), database_bytes=0
        )


def test_a_copy_is_equal_bit_by_bit_and_a_second_run_writes_nothing(pair: Pair) -> None:
    fill(pair.source)
    assert pair.run() == CopiedMemories(13, 13)
    require_equal(pair.source, pair.target)
    version = pair.target.version()
    assert pair.run() == CopiedMemories(13, 0)
    assert pair.target.version() == version


def test_an_empty_memory_is_copied(pair: Pair) -> None:
    assert pair.run() == CopiedMemories(0, 0)


def test_what_is_stored_in_a_copy_gets_ids_that_were_never_given(pair: Pair) -> None:
    fill(pair.source)
    pair.run()
    with pair.source.read() as reader:
        last = reader.last_ids()
    memory_id = add(pair.target, new_memory("new words in a document"))
    assert memory_id == last.memory + 1
    with pair.target.read() as reader:
        assert reader.chunks.of(memory_id)[0].id == last.chunk + 1
        assert reader.memories.changes(Scope(since_id=reader.cursor().memory_id), 5) == []
    with pair.target.write() as writer:
        assert writer.delete(1) is not None


def test_the_words_of_a_copy_are_found_and_can_be_deleted(pair: Pair) -> None:
    fill(pair.source)
    pair.run()
    delete(pair.target, *(one.memory.id for one in memories_in(pair.target)))
    assert blocks_in(pair.target) == []


def test_a_copy_has_the_links_of_its_memories(pair: Pair) -> None:
    fill(pair.source)
    with pair.source.write() as writer:
        writer.link(4, Links({1: 0.7, 2: 0.65}))
    pair.run()
    with pair.source.write() as writer:
        writer.remove_links()
        writer.link(5, Links({1: 0.8}))
    pair.run()
    with pair.target.read() as reader:
        [link] = reader.links.after((0, 0), 9)
    assert {link.older_id, link.newer_id, link.evidence} == {1, 5, 0.8}


def test_what_was_stored_read_amended_pinned_and_superseded_since_follows_with_the_next_run(pair: Pair) -> None:
    fill(pair.source)
    pair.run()
    with pair.source.write() as writer:
        writer.pin(1, pinned=True)
        writer.supersede(12, [11])
        writer.expire(9, "2999-01-01T00:00:00Z")
        writer.amend(replace(writer.memories.get(2), title="New", tags=["new"], metadata={}), None, "2026-04-04")
        writer.record_access([4], "2026-03-03")
    add(pair.source, new_memory("later"))
    assert pair.run() == CopiedMemories(14, 5)
    require_equal(pair.source, pair.target)


STEPS = 14
"""Of a copy that can fail: before and after three portions of memories, and four steps of its completion."""


@pytest.mark.parametrize("at", range(1, STEPS + 1, 3))
def test_an_interrupted_copy_is_continued(pair: Pair, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(pair.source)
    step = 0

    def reach_step() -> None:
        nonlocal step
        step += 1
        if step == at:
            raise KeyboardInterrupt

    def interrupted(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            reach_step()
            method(*arguments)
            reach_step()

        return run

    with monkeypatch.context() as patched:
        patched.setattr(KeywordIndex, "clear", interrupted(KeywordIndex.clear))
        for name in ("add_memories", "add_blocks", "finish"):
            patched.setattr(Portions, name, interrupted(getattr(Portions, name)))
        with pytest.raises(KeyboardInterrupt):
            pair.run()
    pair.run()
    require_equal(pair.source, pair.target)


def test_a_target_with_other_memories_is_refused_and_not_changed(pair: Pair) -> None:
    fill(pair.source)
    add(pair.target, new_memory("other"))
    refused(pair)


def delete(storage: Storage, *memory_ids: int) -> None:
    with storage.write() as writer:
        for memory_id in memory_ids:
            writer.delete(memory_id)


def describe(storage: Storage) -> None:
    with storage.write() as writer:
        writer.amend(replace(writer.memories.get(2), description="New"), None, "2026-04-04")


def refused(pair: Pair, reason: str = "memories that the source does not have") -> None:
    """Require that a copy is refused before it changes anything."""
    version = pair.target.version()
    with pytest.raises(ValidationError, match=reason):
        pair.run()
    assert pair.target.version() == version


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda target: add(target, new_memory("stored in the copy")), "memories that the source does not have"),
        (lambda target: delete(target, 2), "were deleted in the target"),
        (describe, "memories that the source does not have"),
    ],
)
def test_a_copy_in_which_memories_were_stored_deleted_or_amended_is_refused(
    pair: Pair, change: Callable[[Storage], object], reason: str
) -> None:
    fill(pair.source)
    pair.run()
    change(pair.target)
    refused(pair, reason)


def test_what_the_source_has_lost_goes_in_the_target_too(pair: Pair) -> None:
    """The first, the last, one that superseded others, one that has expired; and what is new follows."""
    fill(pair.source)
    pair.run()
    with pair.source.write() as writer:
        writer.expire(2, "2020-01-01")
        writer.amend(replace(writer.memories.get(4), title="New", tags=["new"], metadata={}), None, "2026-04-04")
        writer.pin(5, pinned=True)
    delete(pair.source, 1, 2, 9, max(one.memory.id for one in memories_in(pair.source)))
    add(pair.source, new_memory("later"))
    assert pair.run() == CopiedMemories(10, 3, removed=4)
    require_equal(pair.source, pair.target)
    version = pair.target.version()
    assert pair.run() == CopiedMemories(10, 0)
    assert pair.target.version() == version


def test_a_copy_follows_although_nothing_is_left_of_what_was_copied(pair: Pair) -> None:
    add(pair.source, new_memory("the only one"))
    pair.run()
    delete(pair.source, 1)
    assert pair.run() == CopiedMemories(0, 0, removed=1)
    add(pair.source, new_memory("another"))
    pair.run()
    require_equal(pair.source, pair.target)


def test_what_was_stored_in_the_target_is_kept_although_the_source_has_given_and_lost_its_id(pair: Pair) -> None:
    fill(pair.source)
    pair.run()
    for storage in (pair.source, pair.target):
        number = add(storage, new_memory("stored in both"))
    delete(pair.source, number)
    add(pair.source, new_memory("later"))
    refused(pair)


def test_a_copy_of_another_source_loses_nothing_although_that_has_lost_the_same_ids(pair: Pair, tmp_path: Path) -> None:
    add(pair.source, new_memory("one"))
    pair.run()
    (tmp_path / "other").mkdir()
    with closing(ENGINES["sqlite"](tmp_path / "other")) as other:
        for text in ("two", "three"):
            add(other, new_memory(text))
        delete(other, 1)
        pair.source = other
        refused(pair)


def interrupt(_index: KeywordIndex) -> None:
    raise KeyboardInterrupt


def test_what_the_source_loses_between_two_parts_of_an_interrupted_copy_goes_too(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pair.source)
    with monkeypatch.context() as patched:
        patched.setattr(KeywordIndex, "clear", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pair.run()
    delete(pair.source, 2, 8)
    assert pair.run() == CopiedMemories(11, 0, removed=2)
    require_equal(pair.source, pair.target)


def test_what_has_expired_and_was_erased_in_the_target_first_is_copied_again_until_the_source_erases_it(
    pair: Pair,
) -> None:
    fill(pair.source)
    pair.run()
    with pair.source.write() as writer:
        writer.expire(2, "2020-01-01")
    delete(pair.target, 2)
    pair.run()
    require_equal(pair.source, pair.target)
    delete(pair.source, 2)
    pair.run()
    require_equal(pair.source, pair.target)


def test_a_memory_that_moved_goes_back_with_all_that_happened_to_it(pair: Pair) -> None:
    fill(pair.source)
    pair.run()
    delete(pair.target, 1, 9)
    add(pair.target, new_memory("later"))
    pair.source, pair.target = pair.target, pair.source
    assert pair.run() == CopiedMemories(12, 1, removed=2)
    require_equal(pair.source, pair.target)
    delete(pair.target, 2)
    refused(pair, "were deleted in the target")


def test_a_target_with_vectors_of_another_model_is_refused(pair: Pair) -> None:
    fill(pair.source)
    new = new_memory("other")
    with pair.target.write() as writer:
        history = History(*["2026-01-01"] * 3)
        made = derived(new, OTHER_MODEL)
        writer.delete(writer.add_memory(new, made, content_hash=content_hash(new), history=history))
    with pytest.raises(ValidationError, match="another model"):
        pair.run()


def test_random_memories_are_copied(pair: Pair) -> None:
    chosen = random.Random(7)
    for number in range(25):
        text = "".join(chosen.choices("ab \nü数\N{GRINNING FACE}\u2400", k=chosen.randint(1, 60)))
        kind = chosen.choice([MemoryKind.REPORT, MemoryKind.INPUT_PROMPT, MemoryKind.WORKING_MEMORY])
        add(pair.source, new_memory(text, kind, session_id=chosen.choice("xyz")), at=f"2026-01-01T00:00:{number:02}Z")
    pair.run()
    require_equal(pair.source, pair.target)


def test_a_fingerprint_of_other_dimensions_needs_a_target_made_for_them(pair: Pair) -> None:
    longer = Fingerprint("longer", 12, "fp32", "test")
    with pair.source.write() as writer:
        writer.upkeep.change.begin(longer)
    with pytest.raises(ValidationError, match="another model"):
        pair.run()
