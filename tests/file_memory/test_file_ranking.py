"""Joining what meaning and words say."""

from hypothesis import given
from hypothesis import strategies as st

from vector_memory.domain import SearchMode
from vector_memory.files.ranking import WEIGHTS, Ranked, Weights, rank

HYBRID = WEIGHTS[SearchMode.HYBRID]
SHARES = st.floats(0, 1)


def scan(cosines: dict[int, float], words: dict[int, float], weights: Weights, limit: int) -> list[Ranked]:
    """Score every chunk, without any list."""
    scores = {
        chunk: weights.meaning * min(1.0, max(0.0, cosines.get(chunk, 0.0))) + weights.words * words.get(chunk, 0.0)
        for chunk in cosines.keys() | words.keys()
    }
    ranked = [Ranked(chunk, round(score, 6)) for chunk, score in scores.items() if score > 0]
    return sorted(ranked, key=lambda each: (-each.score, each.chunk_id))[:limit]


def test_the_score_is_seven_tenths_meaning_and_three_tenths_words() -> None:
    assert rank([(1, 0.5)], {1: 1.0}, HYBRID, 5, lambda _: {}) == [Ranked(1, 0.65)]


def test_a_better_match_by_words_never_lowers_the_score() -> None:
    near = [(1, 0.5), (2, 0.5)]
    assert [hit.chunk_id for hit in rank(near, {1: 0.2, 2: 0.9}, HYBRID, 5, lambda _: {})] == [2, 1]


def test_a_chunk_counts_by_its_best_passage() -> None:
    assert rank([(1, 0.9), (2, 0.8), (1, 0.1)], {}, HYBRID, 5, lambda _: {}) == [Ranked(1, 0.63), Ranked(2, 0.56)]


def test_what_is_nearer_only_by_an_error_of_the_arithmetic_comes_in_the_order_of_the_ids() -> None:
    found = rank([(2, 0.60000001), (1, 0.6)], {}, HYBRID, 5, lambda _: {})
    assert [hit.chunk_id for hit in found] == [1, 2]


@given(
    st.dictionaries(st.integers(1, 30), st.floats(-1, 1), min_size=1),
    st.dictionaries(st.integers(1, 40), SHARES),
    st.integers(1, 10),
    st.integers(1, 30),
    st.sampled_from(sorted(WEIGHTS.values())),
)
def test_the_best_are_those_of_a_scan_however_short_the_list_of_the_nearest(
    cosines: dict[int, float], words: dict[int, float], limit: int, nearest: int, weights: Weights
) -> None:
    """The list has at least as many chunks as are asked for, as in the index, where it has 4,096 passages."""
    near = sorted(cosines.items(), key=lambda item: (-item[1], item[0]))[: max(limit, nearest)]
    found = rank(
        near, words, weights, limit, lambda chunks: {chunk: cosines[chunk] for chunk in chunks if chunk in cosines}
    )
    expected = scan(cosines, words, weights, limit)
    assert [hit.score for hit in found] == [hit.score for hit in expected]


def test_a_chunk_with_the_words_is_compared_by_meaning_though_it_is_not_in_the_list_of_the_nearest() -> None:
    assert [hit.chunk_id for hit in rank([(1, 0.9)], {2: 1.0}, HYBRID, 1, lambda _: {2: 0.8})] == [2]
