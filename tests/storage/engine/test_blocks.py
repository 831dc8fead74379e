"""The blocks of the keyword index have exactly the words of the texts, and nothing of what was removed."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_memories import add, content_hash, derived, new_memory
from engines import execute
from vector_memory.domain import TRAITS, MemoryKind, Scope
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.postings import BUCKETS, LENGTH, POSTING, all_occurrences, key_of, numbers_of
from vector_memory.storage.queries import keywords
from vector_memory.storage.records import History, LastIds
from vector_memory.texts.terms import terms
from vector_memory.upkeep.doctor.agreement import are_words_correct

KINDS = (MemoryKind.REPORT, MemoryKind.WORKING_MEMORY, MemoryKind.INPUT_PROMPT, MemoryKind.TAGGED)
DATES = History("2026-01-01", "2026-01-01", "2026-01-01")
FAR = 0x5A5A_1234_5678
"""An id whose bytes are nowhere by chance."""

texts = st.lists(st.sampled_from(["alpha", "beta", "gamma", "a_b"]), min_size=1, max_size=6).map(" ".join)
steps = st.lists(st.tuples(st.sampled_from(KINDS), texts) | st.integers(0, 9), max_size=20)
"""What is done to a memory: a text is stored under a kind, or one of the stored ones is deleted, by its position."""

Words = dict[int, tuple[int, int, dict[int, int]]]
"""By the ids of units: the id of the memory, the number of terms, and the counts by the keys of the terms."""


class UndoneError(Exception):
    pass


@contextmanager
def undone(storage: Storage) -> Iterator[Writer]:
    """Yield a writer to an empty memory, and undo all that it writes."""
    with suppress(UndoneError), storage.write() as writer:
        yield writer
        raise UndoneError


def words_in_blocks(writer: Writer) -> Words:
    found: Words = {}
    for kind in KINDS:
        units, rows = writer.vectors.candidates.indexed(Scope(kind), list(range(BUCKETS)))
        keys, everywhere = all_occurrences(rows, len(units.block_ids))
        counts = defaultdict[int, dict[int, int]](dict)
        for entry, key, count in zip(units.entries_at(everywhere), keys.tolist(), everywhere.counts, strict=True):
            assert units.inside[entry]
            counts[int(entry)][key] = int(count)
        owners = units.owners_of(np.arange(len(units.ids)))
        found |= {
            int(units.ids[entry]): (int(owners[entry]), int(units.lengths[entry]), counts[entry])
            for entry in np.flatnonzero(units.inside).tolist()
        }
    return found


def words_of_texts(writer: Writer) -> Words:
    found: Words = {}
    for memory_id in writer.memories.ids(Scope()):
        for unit in writer.keywords.units_of(memory_id):
            own = terms(unit.text)
            found[unit.id] = memory_id, len(own), {key_of(term): count for term, count in Counter(own).items()}
    return found


@given(steps)
def test_whatever_is_stored_and_deleted_the_blocks_have_the_words_of_the_texts_as_if_they_were_built_anew(
    storage: Storage, done: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch, undone(storage) as writer:
        patch.setattr(keywords, "UNITS_PER_BLOCK", 6)
        writer.raise_last_ids(LastIds(0, 1_000))  # chunks have other ids than memories
        stored: list[int] = []
        for step in done:
            if not isinstance(step, int):
                kind, text = step
                new = new_memory(text, kind)
                stored.append(writer.add_memory(new, derived(new), content_hash=content_hash(new), history=DATES))
            elif step < len(stored):
                writer.delete(stored.pop(step))
        for _ in range(2):
            assert words_in_blocks(writer) == words_of_texts(writer)
            assert are_words_correct(writer)
            assert not writer.upkeep.portions.miscounted()
            writer.keywords.clear()
            writer.keywords.fill()
        assert all((writer.vectors.candidates.indexed(Scope(kind), []).units.ids != 0).all() for kind in KINDS)


def blocks_of(storage: Storage) -> list[list[int]]:
    """Return the ids of the memories of each block."""
    with storage.read() as reader:
        return [[*block.contents.spans()] for block in reader.upkeep.portions.blocks(0, 99)]


def test_the_last_memories_of_a_block_move_to_the_open_one(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "UNITS_PER_BLOCK", 8)
    ids = [add(storage, new_memory(f"words a{number}", MemoryKind.INPUT_PROMPT)) for number in range(20)]
    first, second, third = ids[:8], ids[8:16], ids[16:]
    assert blocks_of(storage) == [first, second, third]
    monkeypatch.setattr(keywords, "indexed", None)  # no text is read again while others wait to write
    for removed, left in (
        (first[:5], [first[5:], second, third]),
        (first[5:6], [second, [*third, *first[6:]]]),
        (third, [second, first[6:]]),
        (first[6:7], [second, first[7:]]),
        (second[1:], [[first[7], second[0]]]),
    ):
        with storage.write() as writer:
            for memory_id in removed:
                writer.delete(memory_id)
            assert words_in_blocks(writer) == words_of_texts(writer)
        assert blocks_of(storage) == left


@pytest.mark.parametrize("kind", [MemoryKind.REPORT, MemoryKind.INPUT_PROMPT])
def test_a_removed_memory_leaves_its_place_in_a_block_and_nothing_else(storage: Storage, kind: MemoryKind) -> None:
    def rows(table: str, *columns: str) -> list[tuple[bytes, ...]]:
        return execute(storage, f"select {', '.join(columns)} from {table} order by id")

    kept = [add(storage, new_memory("alpha beta alpha beta", kind))]
    with storage.write() as writer:
        writer.raise_last_ids(LastIds(FAR, 2 * FAR))
    removed = add(storage, new_memory("alpha gamma gamma words", kind))
    kept.append(add(storage, new_memory("beta delta", kind)))
    with storage.write() as writer:
        units = [unit.id for unit in writer.keywords.units_of(removed)]
        ((block, span),) = ((block, block.contents.spans()[removed]) for block in writer.upkeep.portions.blocks(0, 9))
        writer.delete(removed)
    ((memory_ids, sizes, unit_ids, lengths),) = rows("keyword_blocks", "memory_ids", "sizes", "unit_ids", "lengths")
    assert len(span) == len(units) == (3 if TRAITS[kind].chunked else 1)
    for number in (removed, *units):
        assert number.to_bytes(8, "little") in block.contents.memory_ids + block.contents.unit_ids
        assert number.to_bytes(8, "little") not in memory_ids + unit_ids
    assert [len(memory_ids), sizes, len(unit_ids)] == [24, block.contents.sizes, len(block.contents.unit_ids)]
    assert not np.frombuffer(lengths, LENGTH)[span.start : span.stop].any()
    postings = [np.frombuffer(row, POSTING) for (row,) in rows("keyword_postings", "postings")]
    assert all(map(len, postings))
    assert not np.isin(numbers_of(np.concatenate(postings)), [*span]).any()
    assert execute(storage, "select memory_id from keyword_memories order by 1") == [(number,) for number in kept]
    with storage.write() as writer:
        for memory_id in kept:
            writer.delete(memory_id)
    for table in ("keyword_blocks", "keyword_postings"):
        assert rows(table, "id") == []
