"""Where a long text is cut."""

from hypothesis import given
from hypothesis import strategies as st

from vector_memory.server.lean import SPARED, excerpt
from vector_memory.texts.terms import query_terms

FILLER = [f"The team met again on day {number} and wrote down what it saw." for number in range(30)]


def shown(text: str, query: str, length: int = 300) -> str:
    return text[slice(*excerpt(text, query_terms(query), length))]


def test_the_part_with_the_words_of_the_question_stays_with_its_neighbours() -> None:
    text = " ".join([*FILLER[:15], "The lock took eleven minutes.", *FILLER[15:]])
    part = shown(text, "how many minutes was the lock")
    assert "day 14" in part
    assert "eleven minutes" in part
    assert "day 15" in part
    assert len(part) <= 300


def test_a_rare_word_decides_and_not_one_that_stands_everywhere() -> None:
    text = "\n".join(["The team saw the team of the other team.", *FILLER, "A fuse blew."])
    assert "A fuse blew." in shown(text, "did the team find a fuse")


def test_without_a_word_of_the_question_a_text_begins_at_its_beginning() -> None:
    assert shown(" ".join(FILLER), "zebra").startswith(FILLER[0])


def test_whole_lines_and_sentences_stay() -> None:
    assert set(shown("\n".join(FILLER), "day 17").splitlines()) <= set(FILLER)


@given(st.text(st.sampled_from("ab .\n?é字"), max_size=2_000), st.integers(100, 600))
def test_an_excerpt_is_a_part_of_about_its_length(text: str, length: int) -> None:
    """Whatever the text, something is shown, and never much more than there is room for."""
    start, end = excerpt(text, {"a", "b"}, length)
    assert 0 <= start < end <= len(text) or not text
    assert end - start <= max(length + SPARED, 301)


def test_an_excerpt_does_not_end_with_a_heading() -> None:
    text = "\n".join([*FILLER[:15], "The lock took eleven minutes.", "## In detail", *FILLER[15:]])
    assert shown(text, "how many minutes was the lock", 30) == "The lock took eleven minutes.\n"
    assert shown(text, "how many minutes was the lock", 45) == "The lock took eleven minutes.\n"
