"""Another model's vectors are filled in beside those in use, and then swapped with them."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from clusters import server_url
from engine_memories import MODEL, Engine, add, derived, new_memory, unit_vector
from vector_memory.domain import Fingerprint, MemoryKind, Scope
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Embedded, History, Lease
from waiting import eventually

LONGER = Fingerprint("longer", 12, "fp32", "test")


def begin(storage: Storage) -> None:
    with storage.write() as writer:
        writer.upkeep.spare_vectors.begin(LONGER)


def embedded_again(storage: Storage, memory_id: int) -> Embedded:
    with storage.read() as reader:
        memory = reader.memory(memory_id)
    made = derived(new_memory(memory.content, MemoryKind(memory.memory_type))).embedded
    return replace(made, vectors=np.pad(made.vectors, ((0, 0), (0, 4))), fingerprint=LONGER)


def fill(storage: Storage) -> int:
    """Recompute all missing vectors; return of how many memories."""
    filled = after = 0
    while True:
        with storage.write() as writer:
            memory = writer.upkeep.spare_vectors.next_missing(after)
            if memory is None:
                return filled
        embedded, after = embedded_again(storage, memory.id), memory.id
        with storage.write() as writer:
            writer.upkeep.spare_vectors.add(memory, embedded)
        filled += 1


def erase(storage: Storage) -> int:
    """Erase what is no longer needed; return the number of steps."""
    steps = 0
    while True:
        with storage.write() as writer:
            if not writer.upkeep.spare_vectors.erase_step():
                return steps
        steps += 1


def test_without_spare_vectors_nothing_is_needed_and_nothing_to_erase(storage: Storage) -> None:
    add(storage, new_memory())
    with storage.write() as writer:
        assert not writer.upkeep.spare_vectors.exist()
        assert writer.upkeep.spare_vectors.needed_for() is None
        writer.upkeep.spare_vectors.discard()
        assert not writer.upkeep.spare_vectors.erase_step()


def test_until_the_swap_the_old_vectors_are_in_use_and_memories_are_added_with_them(storage: Storage) -> None:
    first = add(storage, new_memory("a document of three chunks"))
    begin(storage)
    second = add(storage, new_memory("another", MemoryKind.INPUT_PROMPT))
    with storage.read() as reader:
        assert reader.upkeep.spare_vectors.needed_for() == LONGER
        assert reader.upkeep.spare_vectors.count_missing() == 2
        assert reader.upkeep.spare_vectors.is_missing(first)
    assert fill(storage) == 2
    with storage.read() as reader:
        assert reader.fingerprint() == MODEL
        assert (reader.upkeep.spare_vectors.count_missing(), reader.upkeep.spare_vectors.count_recomputed()) == (0, 2)
        assert [len(p.vector) for p in reader.passages_of(reader.memory(second))] == [MODEL.dimensions]


def test_after_the_swap_every_passage_has_its_new_vector_and_the_old_ones_are_erased(storage: Storage) -> None:
    content = "a document of three chunks"
    document = add(storage, new_memory(content))
    begin(storage)
    fill(storage)
    with storage.read() as reader:
        before = reader.passages_of(reader.memory(document))
    with storage.write() as writer:
        writer.upkeep.spare_vectors.swap()
    assert erase(storage) > 0
    with storage.read() as reader:
        assert reader.fingerprint() == LONGER
        after = reader.passages_of(reader.memory(document))
        assert [passage[:3] for passage in after] == [passage[:3] for passage in before]
        assert [passage.vector[:8].tolist() for passage in after] == [passage.vector.tolist() for passage in before]
        assert not reader.upkeep.spare_vectors.exist()
        with pytest.raises(EmbeddingUnavailableError):
            reader.require_comparable(MODEL)
    later = new_memory("added later")
    made = derived(later)
    longer = replace(made.embedded, vectors=np.pad(made.embedded.vectors, ((0, 0), (0, 4))), fingerprint=LONGER)
    with storage.write() as writer:
        history = History("2026-01-01", "2026-01-01", "2026-01-01")
        memory_id = writer.add_memory(later, replace(made, embedded=longer), content_hash="0" * 64, history=history)
    with storage.read() as reader:
        assert [len(p.vector) for p in reader.passages_of(reader.memory(memory_id))] == [LONGER.dimensions] * 2


def test_a_memory_without_spare_vectors_lacks_vectors_after_the_swap(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    begin(storage)
    embedded = embedded_again(storage, first)
    with storage.write() as writer:
        writer.upkeep.spare_vectors.add(writer.memory(first), embedded)
        writer.upkeep.spare_vectors.swap()
    erase(storage)
    with storage.read() as reader:
        assert reader.count(Scope(), without_vectors=True) == 1
        missing = reader.next_without_vectors(0)
        assert missing.id == second


def test_after_the_swap_nobody_holds_a_lease_for_the_old_vectors(storage: Storage) -> None:
    add(storage, new_memory("first"))
    second = add(storage, new_memory("second"), model=None)
    lease = Lease("me", time.time() + 30)
    with storage.write() as writer:
        writer.defer_vectors(second, lease)
    begin(storage)
    fill(storage)
    with storage.write() as writer:
        writer.upkeep.spare_vectors.swap()
        writer.renew_leases(lease)
    with storage.read() as reader:
        assert reader.pending(Scope()).memories == 0
        assert reader.can_take_over("me")
        missing = reader.next_without_vectors(0)
        assert missing.id == second


def test_deleting_a_memory_deletes_its_spare_vectors(storage: Storage) -> None:
    memory_id = add(storage, new_memory("a document of three chunks"))
    begin(storage)
    fill(storage)
    with storage.write() as writer:
        writer.delete(memory_id)
        assert writer.upkeep.spare_vectors.count_recomputed() == 0


def test_a_reader_reads_on_while_another_handle_waits_to_erase(engine: Engine) -> None:
    memory_id = add(engine.storage, new_memory("0123456789" * 3))
    begin(engine.storage)
    fill(engine.storage)
    with engine.storage.write() as writer:
        writer.upkeep.spare_vectors.swap()
    other = engine.open()
    with ThreadPoolExecutor() as pool:
        with engine.storage.read() as reader:
            reader.memory(memory_id)
            erased = pool.submit(erase, other)
            eventually(lambda: erased.done() or is_waited_for())
            assert len(reader.chunks_of(memory_id)) > 1
        assert erased.result() > 0


def is_waited_for() -> bool:
    """Return whether a transaction of the server waits for a lock on a table."""
    with psycopg.connect(server_url()) as connection:
        sql = "select exists (select 1 from pg_locks where not granted and locktype = 'relation')"
        return bool(connection.execute(sql).fetchone()[0])  # type: ignore[index]


def test_discarded_vectors_are_erased_in_steps_and_others_can_begin(storage: Storage) -> None:
    add(storage, new_memory("a document of three chunks"))
    begin(storage)
    fill(storage)
    with storage.write() as writer:
        writer.upkeep.spare_vectors.discard()
        assert writer.upkeep.spare_vectors.exist()
        assert writer.upkeep.spare_vectors.needed_for() is None
    erase(storage)
    with storage.read() as reader:
        assert not reader.upkeep.spare_vectors.exist()
        assert reader.fingerprint() == MODEL
    begin(storage)
    assert fill(storage) == 1


def test_after_the_swap_tags_have_no_vectors(storage: Storage) -> None:
    add(storage, new_memory("x"))
    with storage.write() as writer:
        writer.count_tag("t", unit_vector("t"), "2026-01-01")
    begin(storage)
    fill(storage)
    with storage.write() as writer:
        writer.upkeep.spare_vectors.swap()
    with storage.read() as reader:
        assert reader.tag_vectors(LONGER.dimensions).missing() == ["t"]


def test_a_connection_that_has_prepared_its_statements_goes_on_after_the_swap(storage: Storage) -> None:
    memory_id = add(storage, new_memory("a document of three chunks"))
    lengths = []
    for _ in range(8):
        with storage.read() as reader:
            lengths.append(len(reader.passages_of(reader.memory(memory_id))[0].vector))
    begin(storage)
    fill(storage)
    with storage.write() as writer:
        writer.upkeep.spare_vectors.swap()
    with storage.read() as reader:
        lengths.append(len(reader.passages_of(reader.memory(memory_id))[0].vector))
    assert lengths == [MODEL.dimensions] * 8 + [LONGER.dimensions]
