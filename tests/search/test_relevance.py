"""Scores and the order of hits, and where an answer ends: what is weak is left out."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.answers.forms import FORM, FULL
from vector_memory.domain import MatchLevel, Page
from vector_memory.embedding.known import MINILM
from vector_memory.embedding.token_states import Compared
from vector_memory.search.judge import on_page, weighed
from vector_memory.search.question import Question
from vector_memory.search.rank import Hit, SearchHits, best_of_each_memory, fused_scores, pending_weight, sort_hits
from vector_memory.server.lean import LeanForm
from vector_memory.storage.scoring import VECTOR_WEIGHT

RULE = MINILM.description.confidence
AXES = np.eye(8, dtype=np.float32)
LEVELS: dict[str, MatchLevel] = {"s": "strong", "r": "related", "w": "weak"}


def question() -> Question:
    """One whose words and meaning were compared by the default model."""
    assert RULE
    return Question(AXES[0], ["a"], calibration=RULE, text="What is it?")


def found(scores: Sequence[float], *, length: int = 10, nearest: Sequence[Sequence[float]] = ()) -> SearchHits:
    """Return hits with these scores, which are their cosines and late scores, too."""
    hits = [Hit(number, number, score, score, ("vector",), 0.0, score) for number, score in enumerate(scores, 1)]
    seen = [*nearest, *[[0.0, 0.0]] * (len(hits) - len(nearest))]
    compared = {
        hit.id: Compared(hit.score, np.array(each, np.float32), length) for hit, each in zip(hits, seen, strict=True)
    }
    return SearchHits(hits, scores[0], covered=0.0, compared=compared)


def matches(hits: Sequence[Hit]) -> list[tuple[int, MatchLevel | None]]:
    return [(hit.id, hit.match) for hit in sorted(hits, key=lambda hit: hit.match == "weak")]


def test_of_short_texts_only_those_as_good_as_the_best_are_kept_where_it_stands_out() -> None:
    judged = weighed(found([0.7, 0.69, 0.5, *[0.2] * 9]), question())
    assert matches(judged)[:3] == [(1, "strong"), (2, "strong"), (3, "weak")]


def test_of_long_texts_and_of_texts_that_are_all_alike_those_with_half_the_best_score_are_kept() -> None:
    long = weighed(found([0.7, 0.5, 0.36, 0.34, *[0.2] * 9], length=100), question())
    assert [hit.match for hit in long[:4]] == ["strong", "related", "related", "weak"]
    assert {hit.match for hit in weighed(found([0.7, 0.6, *[0.5] * 20]), question())} == {"strong", "related"}


def test_a_second_subject_of_the_question_is_kept_though_it_is_far_behind() -> None:
    parts = weighed(found([0.7, 0.5, 0.45, *[0.2] * 9], nearest=[[0.9, 0.1], [0.8, 0.1], [0.1, 0.9]]), question())
    assert matches(parts)[:3] == [(1, "strong"), (3, "related"), (2, "weak")]


def test_of_a_few_texts_those_that_are_far_or_far_behind_are_weak() -> None:
    assert [hit.match for hit in weighed(found([0.6, 0.5, 0.29]), question())] == ["strong", "related", "weak"]
    assert {hit.match for hit in weighed(found([0.2, 0.1]), question())} == {"weak"}


def test_if_nothing_is_near_the_question_all_are_weak() -> None:
    assert {hit.match for hit in weighed(found([0.2, 0.19, *[0.1] * 9]), question())} == {"weak"}


def test_a_unit_without_a_vector_is_not_weak_for_its_distance() -> None:
    fresh = SearchHits([Hit(1, 1, 0.3, None, ("keyword",), 0.3)], None, covered=0.3)
    assert weighed(fresh, question())[0].match == "related"
    assert weighed(fresh._replace(covered=1.0), question())[0].match == "strong"


@pytest.mark.parametrize("kept", [0, 3, 7])
@given(limit=st.integers(1, 5))
def test_pages_show_each_result_once_and_weak_ones_begin_a_page(kept: int, limit: int) -> None:
    results = [Hit(number, number, 0.5, 0.5, (), match="related" if number < kept else "weak") for number in range(7)]
    offset, seen = 0, list[Hit]()
    while True:
        shown, left_out, more = on_page(results, Page(limit=limit, offset=offset))
        assert left_out == (max(0, min(offset + limit, 7) - kept) if offset < max(1, kept) else 0)
        assert len({hit.id < kept for hit in shown}) <= 1
        seen += shown
        if not more:
            break
        offset += max(1, len(shown))
    assert seen == results


def shown_on(levels: str, page: Page, *, lean: bool = True) -> list[int]:
    """Return the places of what an answer shows."""
    hits = [Hit(place, place, 0.5, 0.5, ("vector",), match=LEVELS[level]) for place, level in enumerate(levels)]
    token = FORM.set(LeanForm() if lean else FULL)
    shown = on_page(hits, page)
    FORM.reset(token)
    assert shown.more == (page.offset + len(shown.results) < len(levels))
    return [hit.id for hit in shown.results]


@pytest.mark.parametrize(("levels", "shown"), [("rrrrr", 3), ("srrrr", 4), ("srrrrs", 6), ("srrrsrr", 5), ("", 0)])
def test_a_lean_answer_ends_with_at_most_three_that_only_are_related(levels: str, shown: int) -> None:
    assert shown_on(levels, Page()) == list(range(shown))
    assert shown_on(levels, Page(), lean=False) == list(range(len(levels)))


@pytest.mark.parametrize("page", [Page(max_tokens=2_000), Page(offset=1), Page(detail="lines")])
def test_who_asks_for_more_than_an_answer_gets_all_that_are_related(page: Page) -> None:
    assert shown_on("rrrrr", page) == list(range(page.offset, 5))


def test_a_strong_match_is_kept_where_what_has_the_best_score_is_none() -> None:
    hits = found([0.7, 0.6, *[0.2] * 9])
    first = hits.hits[0]._replace(similarity=0.4, late=0.4)  # it has the words
    judged = weighed(hits._replace(hits=[first, *hits.hits[1:]]), question())
    assert matches(judged)[:3] == [(1, "related"), (2, "strong"), (3, "weak")]


def test_how_many_are_found_does_not_change_the_best_match() -> None:
    hits = found([0.5] * 30)
    last = hits.hits[-1]._replace(similarity=0.9, late=0.9)
    judged = weighed(hits._replace(hits=[*hits.hits[:-1], last]), question())
    assert {hit.match for hit in judged} == {"related"}


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
