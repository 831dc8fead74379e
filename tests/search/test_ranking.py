"""Fused scores and the order of hits: pure functions, for any scores."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.search.rank import Hit, best_of_each_memory, fused_scores, pending_weight, sort_hits
from vector_memory.storage.scoring import VECTOR_WEIGHT

SCORES = st.floats(0, 1).map(lambda value: round(value, 6)) | st.sampled_from([0.0, 0.5, 0.500001, 1.0])
HITS = st.lists(
    st.builds(
        Hit, st.integers(1, 10**6), st.integers(0, 4), SCORES, st.none() | SCORES, st.just(()), under=st.just(())
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda hit: hit.id,
)


@given(SCORES, SCORES, SCORES, st.sampled_from([VECTOR_WEIGHT, 0.1, 0.003]))
def test_a_better_match_in_either_never_lowers_a_score(cosine: float, words: float, more: float, weight: float) -> None:
    cosines = np.array([cosine, max(cosine, more), cosine, math.nan])
    plain, nearer, worded, pending = fused_scores(cosines, np.array([words, words, max(words, more), words]), weight)
    assert 0 <= plain <= min(nearer, worded)
    assert max(nearer, worded) <= 1 + 1e-12
    assert pending == words


@given(st.integers(0, 20), st.integers(1, 20))
def test_cosines_count_the_more_the_more_of_the_best_units_by_words_have_vectors(embedded: int, count: int) -> None:
    embedded = min(embedded, count)
    weight = pending_weight(VECTOR_WEIGHT, embedded, count)
    assert 0 < weight <= VECTOR_WEIGHT
    assert (weight == VECTOR_WEIGHT) is (embedded == count)
    assert weight > pending_weight(VECTOR_WEIGHT, embedded - 1, count)


@given(HITS)
def test_a_memory_ranks_at_its_best_unit_with_its_best_similarity(hits: list[Hit]) -> None:
    memories = best_of_each_memory(sort_hits(hits))
    assert {memory.id for memory in memories} == {hit.memory_id for hit in hits}
    for memory in memories:
        own = [hit for hit in hits if hit.memory_id == memory.id]
        assert memory.score == max(hit.score for hit in own)
        assert memory.similarity == max([hit.similarity for hit in own if hit.similarity is not None], default=None)
    assert memories == sort_hits(memories)
