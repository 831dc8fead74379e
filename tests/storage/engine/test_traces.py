"""What is left of deleted memories: no text, but enough to recognize it."""

from dataclasses import replace

import pytest

from engine_memories import Engine, add, content_hash, new_memory
from vector_memory.domain import MemoryKind
from vector_memory.errors import NotFoundError
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.traces import Traces

SECRET = new_memory("my vault word is zanzibar", MemoryKind.INPUT_PROMPT)
OWN = new_memory("another word", MemoryKind.INPUT_PROMPT)
AT = "2026-01-02T03:04:05.000006+00:00"


def traces_in(storage: Storage) -> Traces:
    with storage.read() as reader:
        return reader.traces.get_all()


def add_and_delete(storage: Storage, *, for_good: bool = True) -> None:
    memory_id = add(storage, SECRET, at=AT)
    with storage.write() as writer:
        assert writer.delete(memory_id, for_good=for_good) == 0


def test_a_deleted_memory_is_recognized_by_its_text_kind_and_session(storage: Storage) -> None:
    add_and_delete(storage)
    known = [content_hash(SECRET)]
    with storage.read() as reader:
        (trace,) = reader.traces.of(SECRET, known)
        assert trace.created_at == AT < trace.deleted_at <= reader.now()
        assert reader.traces.of(replace(SECRET, agent_id="b"), ["another hash", *known]) == [trace]
        assert not reader.traces.of(replace(SECRET, session_id="t"), known)
        assert not reader.traces.of(replace(SECRET, kind=MemoryKind.REPORT), known)
        assert not reader.traces.of(SECRET, ["another hash"])


def test_a_trace_holds_no_text_and_no_hash_that_can_be_computed_without_the_key(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same memory leaves another trace in each file or schema."""
    other = Engine(engine.open_at, tmp_path_factory.mktemp("other"), [])
    for storage in (engine.storage, other.open()):
        add_and_delete(storage)
    ((key,), (mine,)), (_, (others,)) = traces_in(engine.storage), traces_in(other.storage)
    other.storage.close()
    assert len(key) == 32
    assert mine.digest != others.digest
    assert content_hash(SECRET)[:32] != mine.digest.hex()


def test_what_is_replaced_or_has_no_source_leaves_no_trace(storage: Storage) -> None:
    add_and_delete(storage, for_good=False)
    note = add(storage, new_memory("a note", MemoryKind.TAGGED))
    with storage.write() as writer:
        writer.delete(note)
    assert traces_in(storage) == Traces([], [])


def test_a_memory_is_deleted_with_its_trace_or_not_at_all(storage: Storage) -> None:
    memory_id = add(storage, SECRET)

    def delete_and_fail() -> None:
        with storage.write() as writer:
            writer.delete(memory_id)
            writer.memories.get(memory_id)

    with pytest.raises(NotFoundError):
        delete_and_fail()
    assert traces_in(storage) == Traces([], [])
    with storage.read() as reader:
        assert reader.memories.get(memory_id).content == SECRET.content


def test_a_memory_that_is_deleted_twice_leaves_one_trace_until_it_is_wanted_again(storage: Storage) -> None:
    for _ in range(2):
        add_and_delete(storage)
    assert len(traces_in(storage).rows) == 1
    with storage.write() as writer:
        writer.forget_traces(SECRET, [content_hash(SECRET)])
    assert traces_in(storage).rows == []


def test_traces_of_another_memory_are_recognized_beside_its_own(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Engine(engine.open_at, tmp_path_factory.mktemp("other"), [])
    add_and_delete(other.open())
    memory_id = add(engine.storage, OWN)
    with engine.storage.write() as writer:
        writer.delete(memory_id)
        for _ in range(2):
            writer.add_traces(traces_in(other.storage))
        assert len(writer.traces.of(SECRET, [content_hash(SECRET)])) == 1
        assert len(writer.traces.of(OWN, [content_hash(OWN)])) == 1
    other.storage.close()
