"""Which tags are valid, which merge, and their weights: the rules of the specification as pure functions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.tagged.tags import MAX_TAG, PREFIXES, VALID, accept_tags, normalized_tag, problem_with, weight
from vector_memory.tagged.vocabulary import (
    GENERAL_WORDS,
    GUARDS,
    as_words,
    best_match,
    guarded,
    is_boosted,
    merges,
    numbers,
    score,
    threshold,
    versions,
)

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-_ .:"
TAGS = st.text(ALPHABET, min_size=1, max_size=30).map(normalized_tag).filter(lambda tag: problem_with(tag) is None)
COSINES = st.floats(-1, 1, allow_nan=False)


@pytest.mark.parametrize("tag", ["type:refactor", "module:billing", "vendor:stripe", "api v2", "n_plus-one", "vue.js"])
def test_the_specified_valid_tags_are_accepted(tag: str) -> None:
    assert accept_tags([tag]) == ([tag], [])


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("random:stuff", "a colon is allowed only after"),
        ("type:", "needs a value after it"),
        (":value", "a colon is allowed only after"),
        ("n+1", "only a-z"),
        ("c++", "only a-z"),
        ("naïve", "only a-z"),
        ("a\0b", "only a-z"),
        ("", "empty"),
        (" \n", "empty"),
        ("x" * (MAX_TAG + 1), "longer than 100"),
    ],
)
def test_an_invalid_tag_is_refused_with_a_reason(tag: str, reason: str) -> None:
    accepted, (refused,) = accept_tags([tag])
    assert accepted == []
    assert reason in refused.reason
    assert tag.startswith(refused.tag)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_each_specified_prefix_starts_a_structured_tag(prefix: str) -> None:
    assert problem_with(f"{prefix}:value") is None


def test_a_tag_is_written_in_one_way() -> None:
    """Case and needless spaces make no difference, nor do spaces around a colon; a tag is taken once."""
    sent = ["API v2.0", " api  V2.0\t", "Module: Billing", "module:billing"]
    assert accept_tags(sent) == (["api v2.0", "module:billing"], [])


@given(st.text(max_size=120))
def test_accepted_tags_keep_the_rules_and_cleaning_them_again_changes_nothing(text: str) -> None:
    accepted, refused = accept_tags([text])
    assert len(accepted) + len(refused) == 1
    for tag in accepted:
        assert VALID.fullmatch(tag)
        assert len(tag) <= MAX_TAG
        assert normalized_tag(tag) == tag


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("v1", {(1,)}),
        ("v2.0", {(2,)}),
        ("v1.2.3", {(1, 2, 3)}),
        ("version 2", {(2,)}),
        ("ver 3.0", {(3,)}),
        ("api 2", {(2,)}),
        ("api v2.0", {(2,)}),
        ("php7", {(7,)}),
        ("python 3.10", {(3, 10)}),
        ("sprint 12", set()),
        ("v10x", set()),
        ("laravel", set()),
    ],
)
def test_versions_are_read_as_specified(tag: str, expected: set[tuple[int, ...]]) -> None:
    assert versions(tag) == expected


def test_numbers_within_words_count() -> None:
    assert numbers("php7 on ipv6, v1.10") == {(7,), (6,), (1, 10)}


@pytest.mark.parametrize(
    ("guard", "tag", "other"),
    [
        ("version", "api v1", "api v2"),
        ("version", "api v1.0", "api v2.0"),
        ("number", "php7", "php8"),
        ("number", "laravel", "laravel 10"),
        ("colon", "type:refactor", "type:bug"),
        ("colon", "module:auth", "domain:auth"),
        ("prefix", "type:refactor", "refactor"),
    ],
)
def test_each_guard_forbids_the_specified_example_however_similar_the_tags_are(
    guard: str, tag: str, other: str
) -> None:
    assert not GUARDS[guard](tag, other)
    assert not merges(tag, other, 1.0)
    assert not merges(other, tag, 1.0)


@pytest.mark.parametrize("tag", ["api_v2", "rest_api_2", "api-v2", "api.v2", "version_2"])
def test_a_version_is_found_whatever_separates_it_from_the_word_before(tag: str) -> None:
    assert versions(tag) == {(2,)}


@pytest.mark.parametrize("tag", ["python 3.11rc", "v3.11beta"])
def test_a_number_followed_by_letters_is_not_a_version(tag: str) -> None:
    """Else `python 3.11rc` would be version 3, and never be the `python 3.11 rc` that it is."""
    assert versions(tag) == set()
    assert not guarded("python 3.11rc", "python 3.11 rc")


def test_the_same_version_lowers_the_threshold() -> None:
    """v2.0 and v2 can merge from 0.85 on, tags without a version from 0.90 on."""
    assert threshold("api v2.0", "api v2") == 0.85
    assert threshold("laravel", "lumen") == 0.90
    assert merges("api v2.0", "rest v2", 0.85)
    assert not merges("api v2.0", "rest v2", 0.8499)
    assert merges("laravel", "lumen", 0.90)
    assert not merges("laravel", "lumen", 0.8999)


def test_a_tag_within_another_gets_the_specified_boost() -> None:
    assert score("laravel", "laravel framework", 0.8959) == 0.9259
    assert merges("laravel framework", "laravel", 0.87)
    assert not merges("laravel framework", "laravel", 0.8699)


@pytest.mark.parametrize(("shorter", "longer"), [("api", "rest api"), ("ui", "web ui"), ("go", "go language")])
def test_short_and_general_words_are_never_boosted(shorter: str, longer: str) -> None:
    assert not is_boosted(shorter, longer)
    assert not merges(shorter, longer, 0.89)


@pytest.mark.parametrize("word", sorted(GENERAL_WORDS))
def test_no_stop_word_is_boosted(word: str) -> None:
    assert not is_boosted(word, f"{word} something")


@pytest.mark.parametrize(
    ("tag", "other"),
    [
        ("front end", "frontend"),
        ("rate_limiting", "rate-limiting"),
        ("base 64", "base64"),
        ("v2", "v2.0"),
        ("version 2", "v2.0"),
        ("api 2", "api v2.0"),
        ("php7", "php v7"),
    ],
)
def test_tags_with_the_same_letters_merge_without_vectors(tag: str, other: str) -> None:
    assert merges(tag, other, 0.0)
    assert best_match(tag, ["web", other], [0.0, 0.0]) == other


def test_tags_with_the_same_letters_and_other_numbers_do_not_merge() -> None:
    assert not merges("v1.0", "v10", 0.0)


def test_similarities_that_differ_by_rounding_are_ties_and_the_oldest_wins() -> None:
    assert best_match("a tag", ["first", "second"], [0.950001, 0.950044]) == "first"
    assert best_match("a tag", ["first", "second"], [0.9500, 0.9502]) == "second"


@given(TAGS, TAGS, COSINES)
def test_merging_is_symmetric_and_grows_with_the_similarity(tag: str, other: str, cosine: float) -> None:
    assert merges(tag, other, cosine) == merges(other, tag, cosine)
    assert guarded(tag, other) == guarded(other, tag)
    if merges(tag, other, cosine):
        assert merges(tag, other, 1.0)


@given(TAGS, st.lists(st.tuples(TAGS, COSINES), max_size=8))
def test_the_best_match_is_allowed_to_merge_and_no_other_is_better(tag: str, near: list[tuple[str, float]]) -> None:
    known, cosines = [other for other, _ in near], [cosine for _, cosine in near]
    found = best_match(tag, known, cosines)
    allowed = {other: score(tag, other, cosine) for other, cosine in near if merges(tag, other, cosine)}
    assert (found is None) == (not allowed)
    if found is not None:
        best = max(score(tag, other, cosine) for other, cosine in near if merges(tag, other, cosine))
        assert any(other == found and score(tag, other, cosine) == best for other, cosine in near)


def test_separators_read_as_spaces() -> None:
    assert as_words("rate-limiting_rules v2.0") == "rate limiting rules v2.0"


@pytest.mark.parametrize(("frequency", "expected"), [(2, 0.91), (1, 1.44)])
def test_weights_match_the_specified_table_where_it_follows_its_formula(frequency: int, expected: float) -> None:
    assert round(weight(frequency), 2) == expected


@pytest.mark.parametrize(("frequency", "shown", "formula"), [(50, 0.26, 0.25), (10, 0.43, 0.42)])
def test_the_other_rows_of_the_specified_table_follow_another_formula(
    frequency: int, shown: float, formula: float
) -> None:
    """They are 1 / ln(frequency), which would be infinite for a tag that occurs once."""
    assert round(1 / math.log(frequency), 2) == shown
    assert round(weight(frequency), 2) == formula
