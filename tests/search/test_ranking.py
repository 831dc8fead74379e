"""Fusing two lists: pure functions, for any lists."""

import math

from hypothesis import given
from hypothesis import strategies as st

from vector_memory.search.fusion import Hit, best_of_each_memory, fuse, fused_score, pending_weight, sort_hits
from vector_memory.storage.scoring import VECTOR_WEIGHT, Match, Ranked

SCORES = st.floats(0, 1).map(lambda value: round(value, 6)) | st.sampled_from([0.0, 0.5, 0.500001, 1.0])
Units = dict[int, tuple[float, float]]
"""Units by id, each with its cosine, NaN if it has no vector, and its share of the words."""

PIECES = st.dictionaries(st.integers(1, 30), st.tuples(SCORES, SCORES), min_size=1)
PENDING = st.dictionaries(st.integers(1, 30), st.tuples(SCORES | st.just(math.nan), SCORES), min_size=1)


def lists(units: Units, depth: int) -> tuple[Ranked, Ranked]:
    """Return what two searches, each of that depth, have found, and of what the other has found the scores."""
    found = []
    for which in (0, 1):
        # Words that do not occur, and vectors that do not exist, are in no list.
        known = [
            Match(unit, unit % 5, scores[which])
            for unit, scores in units.items()
            if (scores[which] if which else not math.isnan(scores[which]))
        ]
        found.append(sorted(known, key=lambda match: (-match.score, match.id)))
    seen = {match.id for matches in found for match in matches[:depth]}
    others = [{unit: units[unit][which] for unit in seen if not math.isnan(units[unit][which])} for which in (0, 1)]
    return tuple(  # type: ignore[return-value]
        Ranked(matches[:depth], len(matches) <= depth, others[which]) for which, matches in enumerate(found)
    )


@given(PIECES, SCORES)
def test_a_better_match_in_either_list_never_lowers_a_score(units: Units, more: float) -> None:
    for similarity, words in units.values():
        assert fused_score(max(similarity, more), words) >= fused_score(similarity, words)
        assert fused_score(similarity, max(words, more)) >= fused_score(similarity, words)
        assert 0 <= fused_score(similarity, words) <= 1 + 1e-12


@given(PIECES | PENDING, st.integers(1, 30), st.sampled_from([VECTOR_WEIGHT, 0.1, 0.003]))
def test_final_ranks_do_not_change_however_long_the_lists_become(units: Units, depth: int, weight: float) -> None:
    everything = sort_hits(
        Hit(unit, unit % 5, fused_score(*scores, weight), None, ())
        for unit, scores in units.items()
        if any(score > 0 for score in scores)
    )
    all_embedded = not any(math.isnan(cosine) for cosine, _ in units.values())
    hits, horizon = fuse(*lists(units, depth), weight, all_embedded=all_embedded)
    settled = [hit for hit in hits if horizon is None or horizon.is_behind(hit.score, hit.id)]
    assert [hit.id for hit in settled if hit.score] == [hit.id for hit in everything][
        : len([h for h in settled if h.score])
    ]
    if depth >= len(units):
        assert horizon is None


@given(PIECES, st.integers(1, 30))
def test_sources_are_the_lists_that_contain_a_unit(units: Units, depth: int) -> None:
    near, keyword = lists(units, depth)
    for hit in fuse(near, keyword)[0]:
        assert ("vector" in hit.sources) is any(match.id == hit.id for match in near.matches)
        assert ("keyword" in hit.sources) is any(match.id == hit.id for match in keyword.matches)
        assert hit.sources


def test_a_unit_without_a_vector_has_no_similarity_and_counts_by_its_words() -> None:
    near = Ranked([Match(1, 1, 0.9)])
    keyword = Ranked([Match(2, 2, 0.5)])
    hits, _ = fuse(near, keyword)
    assert [(hit.id, hit.similarity) for hit in hits] == [(1, 0.9), (2, None)]
    assert hits[1].score == 0.5


@given(PENDING)
def test_units_without_vectors_rank_among_themselves_as_by_words_alone(units: Units) -> None:
    hits, _ = fuse(*lists(units, len(units)))
    pending = [hit for hit in hits if hit.similarity is None]
    assert pending == sorted(pending, key=lambda hit: (-units[hit.id][1], hit.id))


@given(st.integers(0, 20), st.integers(1, 20))
def test_cosines_count_the_more_the_more_of_the_best_units_by_words_have_vectors(embedded: int, count: int) -> None:
    embedded = min(embedded, count)
    weight = pending_weight(VECTOR_WEIGHT, embedded, count)
    assert 0 < weight <= VECTOR_WEIGHT
    assert (weight == VECTOR_WEIGHT) is (embedded == count)
    assert weight > pending_weight(VECTOR_WEIGHT, embedded - 1, count)


@given(PIECES)
def test_a_memory_ranks_at_its_best_unit_with_its_best_similarity(units: Units) -> None:
    hits, _ = fuse(*lists(units, len(units)))
    memories = best_of_each_memory(hits)
    assert {memory.id for memory in memories} == {hit.memory_id for hit in hits}
    for memory in memories:
        own = [hit for hit in hits if hit.memory_id == memory.id]
        assert memory.score == max(hit.score for hit in own)
        assert memory.similarity == max(hit.similarity for hit in own if hit.similarity is not None)
    assert memories == sort_hits(memories)
