"""What a block of the keyword index says of its memories, and what is left when they are removed."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import (
    ID,
    LEAST_LEFT,
    LENGTH,
    MAX_GAPS,
    OUTSIDE,
    Block,
    Contents,
    Occurrences,
    Units,
    indexed,
    rows_to_add,
    units_in,
    without,
)

Memories = dict[int, list[tuple[int, int]]]
"""By the ids of memories, the ids and the lengths of their units."""

ids = st.integers(1, 2**62)
units = st.lists(st.tuples(ids, st.integers(0, 2**32 - 1)), min_size=1, max_size=4)
memories = st.dictionaries(ids, units, max_size=6)
texts = st.lists(st.sampled_from(["alpha", "beta", "gamma"]), max_size=4).map(" ".join)


def contents_of(stored: Memories) -> Contents:
    own = [unit for each in stored.values() for unit in each]
    return Contents(
        np.array([*stored], ID).tobytes(),
        np.array([len(each) for each in stored.values()], LENGTH).tobytes(),
        np.array([number for number, _ in own], ID).tobytes(),
        np.array([length for _, length in own], LENGTH).tobytes(),
    )


def memories_in(contents: Contents) -> Memories:
    """Return what a block says."""
    numbers, lengths = (
        np.frombuffer(column, kind).tolist() for column, kind in ((contents.unit_ids, ID), (contents.lengths, LENGTH))
    )
    return {
        memory_id: list(zip(numbers[span.start : span.stop], lengths[span.start : span.stop], strict=True))
        for memory_id, span in contents.spans().items()
    }


@given(memories, st.data())
def test_a_block_says_what_each_memory_has_until_it_is_removed_and_the_others_keep_their_places(
    stored: Memories, data: st.DataObject
) -> None:
    contents = contents_of(stored)
    assert memories_in(contents) == stored
    places = contents.spans()
    for memory_id in data.draw(st.permutations([*stored])):
        contents = contents.without(memory_id, contents.spans()[memory_id])
        del stored[memory_id]
        assert memories_in(contents) == stored
        assert contents.spans() == {number: places[number] for number in stored}
        left, given = (sum(len(span) for span in spans.values()) for spans in (contents.spans(), places))
        assert contents.is_sparse == (left * LEAST_LEFT <= given)
    assert not any(contents.memory_ids + contents.unit_ids + contents.lengths)


@given(memories.filter(bool), st.sampled_from(sorted(Contents.__annotations__)), st.data())
def test_a_block_that_lacks_bytes_or_has_too_many_is_damaged(
    stored: Memories, column: str, data: st.DataObject
) -> None:
    contents = contents_of(stored)
    whole: bytes = getattr(contents, column)
    changed = data.draw(st.integers(0, len(whole) - 1).map(lambda length: whole[:length]) | st.just(whole + whole[-8:]))
    with pytest.raises(DamagedError):
        contents._replace(**{column: changed}).spans()


@given(st.lists(st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=5), st.data())
def test_without_a_memory_the_postings_of_a_block_are_those_of_the_others(
    stored: Sequence[Sequence[str]], data: st.DataObject
) -> None:
    removed = data.draw(st.integers(0, len(stored) - 1))
    rows, others, number, span = dict[int, bytes](), dict[int, bytes](), 0, range(0)
    for place, unit_texts in enumerate(stored):
        words = indexed(unit_texts)
        for row in rows_to_add(words, Block(7, number)):
            rows[row["id"]] = rows.get(row["id"], b"") + row["postings"]
            if place != removed:
                others[row["id"]] = others.get(row["id"], b"") + row["postings"]
        if place == removed:
            span = range(number, number + words.units)
        number += words.units
    changed = without(rows, span)
    assert {number: row for number, row in (rows | changed).items() if row} == others
    assert all(rows[number] != row for number, row in changed.items())


Sizes = Sequence[Sequence[int]]
"""Of some blocks, the numbers of units of each memory."""

sizes = st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=4)
steps = st.sampled_from([(1, 1), (1, 3), (1, 2**40), (2**40, 2**41)])
"""How far the ids of units are apart, at least and at most: next to each other, near, or far."""


class Blocks:
    """Some blocks, whose memories have the ids 1, 2, 3 and so on, and which of their units were removed."""

    def __init__(self, data: st.DataObject, own: Sizes) -> None:
        self.counts = [sum(block) for block in own]
        self.sizes = [size for block in own for size in block]
        least, most = data.draw(steps)
        gaps = data.draw(st.lists(st.integers(least, most), min_size=sum(self.sizes), max_size=sum(self.sizes)))
        self.given_ids = np.cumsum(gaps, dtype=np.int64).tolist()
        removed = data.draw(st.lists(st.booleans(), min_size=len(self.sizes), max_size=len(self.sizes)))
        self.memory_ids = [0 if gone else number for number, gone in enumerate(removed, 1)]
        self.owners = [number for number, size in zip(self.memory_ids, self.sizes, strict=True) for _ in range(size)]
        self.unit_ids = [number if owner else 0 for number, owner in zip(self.given_ids, self.owners, strict=True)]

        self.ids = list(range(10, 10 + len(own)))
        self.contents = Contents(
            np.array(self.memory_ids, ID).tobytes(),
            np.array(self.sizes, LENGTH).tobytes(),
            np.array(self.unit_ids, ID).tobytes(),
            np.arange(len(self.unit_ids), dtype=LENGTH).tobytes(),
        )

    def read(self) -> Units:
        return units_in(json.dumps(self.ids), json.dumps(self.counts), **self.contents._asdict())


@given(st.data(), sizes)
def test_a_unit_is_found_by_its_id_and_one_that_was_removed_or_never_there_is_not(
    data: st.DataObject, own: Sizes
) -> None:
    blocks = Blocks(data, own)
    near = {number + step for number in [0, *blocks.given_ids] for step in (-1, 0, 1)} | {0, 2**62}
    asked = data.draw(st.permutations(sorted(number for number in near if number >= 0)))
    places = {number: place for place, number in enumerate(blocks.unit_ids) if number}
    units, wanted = blocks.read(), np.array(asked, np.int64)
    assert units.entries_of(wanted).tolist() == [places.get(number, OUTSIDE) for number in asked]
    values = np.array([*blocks.given_ids, -5])
    assert units.by_id(values)(wanted).tolist() == [number if number in places else -5 for number in asked]


@pytest.mark.parametrize("gap", [1, MAX_GAPS, 2 * MAX_GAPS])
def test_many_units_are_found_by_their_ids_however_far_these_are_apart(gap: int) -> None:
    ids = np.arange(5, 5 + 1_000 * gap, gap)
    memory_ids, sizes = np.array([1], ID).tobytes(), np.array([1_000], LENGTH).tobytes()
    units = units_in("[1]", "[1000]", memory_ids, sizes, ids.tobytes(), bytes(4_000))
    assert units.entries_of(ids[::-1]).tolist() == list(range(1_000))[::-1]
    assert set(units.entries_of(np.array([0, 4, ids[-1] + 1])).tolist()) == {OUTSIDE}


@given(st.data(), sizes)
def test_the_units_of_a_scope_are_those_of_its_memories_that_were_not_removed(data: st.DataObject, own: Sizes) -> None:
    blocks = Blocks(data, own)
    units, some = blocks.read(), data.draw(st.sets(st.integers(1, 20)))
    for chosen, wanted in (
        (units, [owner != 0 for owner in blocks.owners]),
        (units.of_memories([*some]), [owner in some for owner in blocks.owners]),
        (units.without([*some]), [owner != 0 and owner not in some for owner in blocks.owners]),
    ):
        assert (chosen.inside.tolist(), chosen.count) == (wanted, sum(wanted))
    assert units.owners_of(np.arange(len(blocks.owners))).tolist() == blocks.owners


@given(st.data(), sizes.filter(any))
def test_an_occurrence_is_in_a_unit_of_its_block_or_the_block_is_damaged(data: st.DataObject, own: Sizes) -> None:
    blocks = Blocks(data, own)
    units = blocks.read()
    inside = [(block, number) for block, count in enumerate(blocks.counts) for number in range(count)]
    positions, numbers = np.array(inside).T
    counts = np.ones(len(inside), np.uint16)
    assert units.entries_at(Occurrences(positions, numbers, counts)).tolist() == list(range(len(inside)))
    block = data.draw(st.integers(0, len(own) - 1))
    beyond = Occurrences(np.array([block]), np.array([blocks.counts[block]]), counts[:1])
    with pytest.raises(DamagedError):
        units.entries_at(beyond)


def test_sizes_that_are_damaged_do_not_fill_the_memory() -> None:
    sizes = np.full(1_000, 2**32 - 1, LENGTH).tobytes()
    with pytest.raises(DamagedError):
        units_in("[1]", "[1000]", np.arange(1_000, dtype=ID).tobytes(), sizes, bytes(8_000), bytes(4_000))


@given(st.data(), sizes.filter(any), st.sampled_from(sorted(Contents.__annotations__)))
def test_blocks_whose_columns_do_not_match_are_damaged(data: st.DataObject, own: Sizes, column: str) -> None:
    blocks = Blocks(data, own)
    whole: bytes = getattr(blocks.contents, column)
    cut = blocks.contents._replace(**{column: whole[: data.draw(st.integers(0, len(whole) - 1))]})
    miscounted = json.dumps([blocks.counts[0] + 1, *blocks.counts[1:]])
    for units, contents in ((json.dumps(blocks.counts), cut), (miscounted, blocks.contents)):
        with pytest.raises(DamagedError):
            units_in(json.dumps(blocks.ids), units, **contents._asdict())
