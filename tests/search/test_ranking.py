"""Fusing two lists: pure functions, for any lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.search.fusion import Hit, best_of_each_memory, fuse, fused_score, sort_hits
from vector_memory.storage.ranking import Match, Ranked

SCORES = st.floats(0, 1).map(lambda value: round(value, 6)) | st.sampled_from([0.0, 0.5, 0.500001, 1.0])
PIECES = st.dictionaries(st.integers(1, 30), st.tuples(SCORES, SCORES), min_size=1)
"""Pieces by id, each with its cosine and its share of the words."""


def lists(units: dict[int, tuple[float, float]], depth: int) -> tuple[Ranked, Ranked]:
    """Return what two searches, each of that depth, have found, and of what the other has found the scores."""
    found = []
    for which in (0, 1):
        matches = sorted(
            (Match(unit, unit % 5, scores[which]) for unit, scores in units.items()),
            key=lambda match: (-match.score, match.id),
        )
        # Words that do not occur are in no list.
        found.append([match for match in matches if which == 0 or match.score])
    seen = {match.id for matches in found for match in matches[:depth]}
    return tuple(  # type: ignore[return-value]
        Ranked(matches[:depth], len(matches) <= depth, {unit: units[unit][which] for unit in seen})
        for which, matches in enumerate(found)
    )


@given(PIECES, SCORES)
def test_a_better_match_in_either_list_never_lowers_a_score(units: dict[int, tuple[float, float]], more: float) -> None:
    for similarity, words in units.values():
        assert fused_score(max(similarity, more), words) >= fused_score(similarity, words)
        assert fused_score(similarity, max(words, more)) >= fused_score(similarity, words)
        assert 0 <= fused_score(similarity, words) <= 1 + 1e-12


@given(PIECES, st.integers(1, 30))
def test_final_ranks_do_not_change_however_long_the_lists_become(
    units: dict[int, tuple[float, float]], depth: int
) -> None:
    everything = sort_hits(
        Hit(unit, unit % 5, fused_score(*scores), None, ()) for unit, scores in units.items() if any(scores)
    )
    hits, horizon = fuse(*lists(units, depth))
    settled = [hit for hit in hits if horizon is None or horizon.is_behind(hit.score, hit.id)]
    assert [hit.id for hit in settled if hit.score] == [hit.id for hit in everything][
        : len([h for h in settled if h.score])
    ]
    if depth >= len(units):
        assert horizon is None


@given(PIECES, st.integers(1, 30))
def test_sources_are_the_lists_that_contain_a_unit(units: dict[int, tuple[float, float]], depth: int) -> None:
    near, keyword = lists(units, depth)
    for hit in fuse(near, keyword)[0]:
        assert ("vector" in hit.sources) is any(match.id == hit.id for match in near.matches)
        assert ("keyword" in hit.sources) is any(match.id == hit.id for match in keyword.matches)
        assert hit.sources


def test_a_unit_without_a_vector_has_no_similarity_and_counts_as_0() -> None:
    near = Ranked([Match(1, 1, 0.9)])
    keyword = Ranked([Match(2, 2, 0.5)])
    hits, _ = fuse(near, keyword)
    assert [(hit.id, hit.similarity) for hit in hits] == [(1, 0.9), (2, None)]
    assert hits[1].score == pytest.approx(fused_score(0.0, 0.5))


@given(PIECES)
def test_a_memory_ranks_at_its_best_unit_with_its_best_similarity(units: dict[int, tuple[float, float]]) -> None:
    hits, _ = fuse(*lists(units, len(units)))
    memories = best_of_each_memory(hits)
    assert {memory.id for memory in memories} == {hit.memory_id for hit in hits}
    for memory in memories:
        own = [hit for hit in hits if hit.memory_id == memory.id]
        assert memory.score == max(hit.score for hit in own)
        assert memory.similarity == max(hit.similarity for hit in own if hit.similarity is not None)
    assert memories == sort_hits(memories)
