"""What every engine promises about vectors that processes compute later, and about those of a new model."""

import time
from dataclasses import replace

import numpy as np
import pytest

from engine_memories import MODEL, Engine, add, derived, new_memory, unit_vector
from engines import execute
from vector_memory.domain import Fingerprint, MemoryKind, Scope
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.pending import MANY
from vector_memory.storage.records import RECENT_SECONDS, Derived, Lease, Pending

REPORT, PROMPT = new_memory("0123456789 report"), new_memory("prompt", MemoryKind.INPUT_PROMPT, session_id="t")


def lease(owner: str, seconds: float = 30) -> Lease:
    return Lease(owner, time.time() + seconds)


def deferred(storage: Storage, held: Lease) -> list[int]:
    """Store two memories whose vectors the holder of the lease computes."""
    ids = [add(storage, new, model=None, at="2026-01-01T00:00:00+00:00") for new in (REPORT, PROMPT)]
    with storage.write() as writer:
        for memory_id in ids:
            writer.defer_vectors(memory_id, held)
    return ids


def test_what_somebody_works_on_is_pending_and_left_to_him(storage: Storage) -> None:
    report, prompt = deferred(storage, lease("me"))
    with storage.read() as reader:
        everything, session = reader.vectors.pending(Scope()), reader.vectors.pending(Scope(session_id="t"))
        assert (everything.memories, everything.size, everything.last_id) == (2, 23, prompt)
        assert (session.memories, session.size, session.last_id) == (1, 6, prompt)
        assert everything.seconds is not None
        assert 0 <= everything.seconds < RECENT_SECONDS  # whatever times their callers gave them
        assert reader.vectors.pending(Scope(), until=report)[:3] == (1, 17, report)
        assert reader.vectors.pending(Scope(session_id="nowhere")) == Pending()
        assert reader.vectors.next_without_vectors(0) is None
        assert not reader.vectors.can_take_over("other")
        leased = [reader.vectors.next_leased("me"), reader.vectors.next_leased("me", most_characters=10)]
        assert [memory and memory.id for memory in leased] == [report, prompt]
        assert reader.vectors.next_leased("you") is None


@pytest.mark.parametrize("late", [-1.5, 1.5])
def test_promises_of_long_ago_do_not_say_how_long_vectors_have_been_pending(engine: Engine, late: float) -> None:
    _, prompt = deferred(engine.storage, lease("me"))
    execute(engine.storage, f"update pending_vectors set promised_at = promised_at - {late * RECENT_SECONDS}")
    with engine.storage.read() as reader:
        assert reader.vectors.pending(Scope())._replace(size=0) == Pending(2, 0, prompt, None)


def test_what_one_process_has_promised_can_be_told_from_the_rest(storage: Storage) -> None:
    _, prompt = deferred(storage, lease("me"))
    third = add(storage, new_memory("third", MemoryKind.INPUT_PROMPT, session_id="t"), model=None)
    with storage.write() as writer:
        writer.defer_vectors(third, lease("you"))
    with storage.read() as reader:
        yours = reader.vectors.pending(Scope(), owner="you")
        assert (yours.memories, yours.last_id, yours.size) == (1, third, len("third"))
        assert reader.vectors.pending(Scope(), owner="me").last_id == prompt


def test_what_was_left_behind_is_taken_over_and_after_several_attempts_given_up(engine: Engine) -> None:
    report, _ = deferred(engine.storage, lease("dead", -1))
    other = engine.open()
    with other.read() as reader:
        assert reader.vectors.can_take_over("other")
        assert reader.vectors.pending(Scope()) == Pending()
    for _attempt in range(3):
        with other.write() as writer:
            writer.take_over(lease("me", -1))
            assert writer.vectors.next_leased("me").id == report
    with other.read() as reader:
        given_up = reader.vectors.next_without_vectors(0, given_up=True)
        assert given_up.id == report
        assert reader.vectors.next_without_vectors(0, given_up=False) != given_up


def test_a_lease_is_renewed_and_released(storage: Storage) -> None:
    _, prompt = deferred(storage, lease("me", -1))
    with storage.write() as writer:
        writer.renew_leases(lease("me"))
    with storage.read() as reader:
        assert (reader.vectors.pending(Scope()).memories, reader.vectors.can_take_over("other")) == (2, False)
    with storage.write() as writer:
        writer.release_leases("me", prompt)
    with storage.read() as reader:
        assert (reader.vectors.pending(Scope()).memories, reader.vectors.can_take_over("other")) == (1, True)
    with storage.write() as writer:
        writer.release_leases("me")
    with storage.read() as reader:
        assert reader.vectors.pending(Scope()) == Pending()


def test_what_lacks_vectors_is_left_to_whoever_takes_it_over(storage: Storage) -> None:
    memory_id = add(storage, PROMPT, model=None)
    with storage.write() as writer:
        assert not writer.vectors.can_take_over("me")
        writer.defer_missing_vectors()
        writer.defer_missing_vectors()
        writer.take_over(lease("me"))
        taken = writer.vectors.next_leased("me")
    assert taken.id == memory_id


def test_vectors_come_in_batches_and_the_last_one_settles_the_memory(storage: Storage) -> None:
    report, _ = deferred(storage, lease("me"))
    made = derived(REPORT)
    passages, vectors, model = made.embedded.passages, made.embedded.vectors, made.embedded.fingerprint
    halves = [type(made.embedded)(passages[part], vectors[part], model) for part in (slice(1), slice(1, None))]
    with storage.write() as writer:
        memory = writer.memories.get(report)
        batches = [type(made)(chunks=made.chunks, words=made.words, embedded=half) for half in halves]
        assert not writer.add_vectors(memory, batches[1], after=1, is_last=True)
        assert writer.add_vectors(memory, batches[0], after=0, is_last=False)
        assert writer.vectors.embedded_passages(report) == passages[:1]
        assert writer.vectors.passages_of(memory) == []
        writer.discard_vectors(report)
        assert writer.vectors.embedded_passages(report) == []
        assert writer.add_vectors(memory, batches[0], after=0, is_last=False)
        assert writer.add_vectors(memory, batches[1], after=1, is_last=True)
    with storage.read() as reader:
        assert reader.vectors.embedded_passages(report) == passages
        assert reader.vectors.pending(Scope(session_id="s")) == Pending()
        assert [passage.vector.tolist() for passage in reader.vectors.passages_of(memory)] == vectors.tolist()


def test_of_many_memories_that_a_process_has_promised_others_take_the_newest(engine: Engine) -> None:
    ids = [add(engine.storage, new_memory(f"report {number}"), model=None) for number in range(MANY)]
    with engine.storage.write() as writer:
        for memory_id in ids[:-1]:
            writer.defer_vectors(memory_id, lease("busy"))
        assert not writer.vectors.can_take_over("idle")
        writer.defer_vectors(ids[-1], lease("busy"))
    with engine.open().write() as writer:
        assert writer.vectors.can_take_over("idle")
        assert not writer.vectors.can_take_over("busy")
        writer.take_over(lease("idle"))
        assert writer.vectors.next_leased("idle").id == ids[-1]
        assert not writer.vectors.can_take_over("idle")
        writer.release_leases("idle")
        assert writer.vectors.can_take_over("busy")


def test_what_was_left_behind_is_taken_over_before_what_others_have_promised(storage: Storage) -> None:
    left, *others = [add(storage, new_memory(f"report {number}"), model=None) for number in range(MANY + 1)]
    with storage.write() as writer:
        writer.defer_vectors(left, lease("dead", -1))
        for memory_id in others:
            writer.defer_vectors(memory_id, lease("busy"))
        writer.take_over(lease("idle"))
        assert writer.vectors.next_leased("idle").id == left


LONGER = Fingerprint("longer", 12, "fp32", "test")


def begin(storage: Storage, model: Fingerprint = LONGER) -> None:
    with storage.write() as writer:
        writer.upkeep.change.begin(model)


def fill(storage: Storage, *memory_ids: int) -> None:
    """Compute the vectors of memories with the new model."""
    for memory_id in memory_ids:
        with storage.write() as writer:
            memory = writer.memories.get(memory_id)
            made = derived(new_memory(memory.content, MemoryKind(memory.memory_type)))
            longer = np.pad(made.embedded.vectors, ((0, 0), (0, 4)))
            embedded = replace(made.embedded, vectors=longer, fingerprint=LONGER)
            chunks = [stored.chunk for stored in writer.chunks.of(memory_id)]
            new = Derived(chunks=chunks, words=made.words, embedded=embedded)
            assert writer.add_vectors(memory, new, after=0, is_last=True)


def remove_others(storage: Storage) -> int:
    """Remove the vectors of other models; return the number of steps."""
    steps, is_left = 0, True
    while is_left:
        with storage.write() as writer:
            is_left = writer.upkeep.change.remove_step()
        steps += is_left
    return steps


def lengths(storage: Storage, memory_id: int, model: Fingerprint | None = None) -> set[int]:
    """Return the lengths of the vectors of a memory that a reader finds, by default of the current model."""
    with storage.read() as reader:
        if model is not None:
            reader.vectors.require_comparable(model)
        return {len(passage.vector) for passage in reader.vectors.passages_of(reader.memories.get(memory_id))}


def missing(storage: Storage, model: Fingerprint) -> int:
    with storage.read() as reader:
        reader.vectors.require_comparable(model)
        return reader.memories.count(Scope(), without_vectors=True)


def test_while_the_model_changes_a_reader_reads_the_vectors_of_the_model_that_it_chooses(storage: Storage) -> None:
    first, second = add(storage, new_memory("a document of three chunks")), add(storage, new_memory("another"))
    assert [lengths(storage, first) for _ in range(8)] == [{8}] * 8  # the last ones by prepared statements
    begin(storage)
    fill(storage, first)
    assert (lengths(storage, first), lengths(storage, second)) == ({12}, set())
    assert (lengths(storage, first, MODEL), lengths(storage, second, MODEL)) == ({8}, {8})
    assert (missing(storage, LONGER), missing(storage, MODEL)) == (1, 0)
    with storage.write() as writer, pytest.raises(EmbeddingUnavailableError):
        writer.adopt_fingerprint(MODEL)


def test_afterwards_only_the_new_vectors_are_there_and_a_memory_without_them_lacks_vectors(storage: Storage) -> None:
    first, second = add(storage, new_memory("a document of three chunks")), add(storage, new_memory("another"))
    begin(storage)
    fill(storage, first)
    assert remove_others(storage) > 1
    assert (lengths(storage, first), missing(storage, LONGER)) == ({12}, 1)
    with storage.read() as reader:
        assert [model.fingerprint for model in reader.vectors.models()] == [LONGER]
        lacking = reader.vectors.next_without_vectors(0)
        assert lacking is not None
        assert lacking.id == second
        with pytest.raises(EmbeddingUnavailableError):
            reader.vectors.require_comparable(MODEL)
    fill(storage, second)
    assert missing(storage, LONGER) == 0


def test_back_with_the_earlier_model_its_vectors_are_complete(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    begin(storage)
    fill(storage, first)
    begin(storage, MODEL)
    with storage.read() as reader:
        lacking = reader.vectors.next_without_vectors(0)
        assert lacking is not None
        known = reader.vectors.embedded_passages(first)
    assert lacking.id == first  # whose vectors are all there, so that nothing is embedded again
    assert known
    assert lengths(storage, second) == {8}


def test_a_deletion_removes_the_vectors_of_both_models(storage: Storage) -> None:
    memory_id = add(storage, new_memory("a document of three chunks"))
    begin(storage)
    fill(storage, memory_id)
    with storage.write() as writer:
        writer.delete(memory_id)
    assert remove_others(storage) == 1  # of the model itself


def test_nobody_holds_a_lease_for_vectors_of_the_earlier_model(storage: Storage) -> None:
    memory_id = add(storage, new_memory("second"), model=None)
    lease = Lease("me", time.time() + 30)
    with storage.write() as writer:
        writer.adopt_fingerprint(MODEL)
        writer.defer_vectors(memory_id, lease)
    begin(storage)
    with storage.write() as writer:
        writer.renew_leases(lease)
    with storage.read() as reader:
        assert reader.vectors.pending(Scope()).memories == 0
        assert reader.vectors.can_take_over("me")


def test_tags_have_no_vectors_of_the_new_model_at_first(storage: Storage) -> None:
    with storage.write() as writer:
        writer.adopt_fingerprint(MODEL)
        writer.count_tag("t", unit_vector("t"), "2026-01-01")
    begin(storage)
    with storage.read() as reader:
        assert reader.tags.vectors_of(LONGER.dimensions).missing() == ["t"]
        reader.vectors.require_comparable(MODEL)
        assert reader.tags.vectors_of(MODEL.dimensions).missing() == []


def test_one_process_at_a_time_works_on_all_memories_until_its_lease_lapses(storage: Storage) -> None:
    def takes(owner: str, seconds: float = 30) -> bool:
        with storage.write() as writer:
            return writer.upkeep.change.take_lease(Lease(owner, time.time() + seconds))

    assert [takes("a"), takes("b"), takes("a", -1), takes("b"), takes("a")] == [True, False, True, True, False]
    with storage.write() as writer:
        writer.upkeep.change.release_lease("b")
    assert takes("a")
