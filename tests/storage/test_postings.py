"""What a block of the keyword index says of its memories, and what is left when they are removed."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import ID, LEAST_LEFT, LENGTH, Block, Contents, indexed, rows_to_add, without

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


@given(memories.filter(bool), st.sampled_from(Contents._fields), st.data())
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
