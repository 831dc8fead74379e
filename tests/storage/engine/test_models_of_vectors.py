"""Vectors of a new model are stored beside those of the one before, which are removed in the end."""

import time
from dataclasses import replace

import numpy as np
import pytest

from engine_memories import MODEL, add, derived, new_memory, unit_vector
from vector_memory.domain import Fingerprint, MemoryKind, Scope
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Derived, Lease

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
