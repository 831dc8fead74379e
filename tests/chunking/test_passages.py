"""Every token of a text is in a passage, and no passage is longer than the model reads."""

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.effort import effort
from vector_memory.domain import Span
from vector_memory.texts import chunks as passages
from vector_memory.texts.chunks import cut_passages

TokenSpans = Callable[[str], list[Span]]

words = st.sampled_from(
    [
        "a",
        "the",
        "tokenization",
        "don't",
        "각각",
        "漢字漢",
        "e\u0301",
        "İstanbul",
        "x" * 150,
        "--",
        "\0",
        "\u200b",
        "😀",
    ]
)
gaps = st.sampled_from([" ", "\n", "\n\n", "\n \t\n", "", "\u3000", "\t"])
spaced = st.lists(st.tuples(words, gaps), max_size=60)
texts = spaced.map(lambda pairs: "".join(word + gap for word, gap in pairs)) | st.text(max_size=200)


def thirds(text: str) -> list[Span]:
    """Return pieces of up to three characters of each word: cutting inside a word can make more pieces of the rest."""
    return [
        Span(at, min(at + 3, word.end()))
        for word in re.finditer(r"\S+", text)
        for at in range(word.start(), word.end(), 3)
    ]


def greedy(text: str) -> list[Span]:
    """Return words, a long one as a single piece unless it is cut: as a tokenizer does that gives up on long words."""
    return [
        Span(at, at + step)
        for word in re.finditer(r"\S+", text)
        for step in [len(word[0]) if len(word[0]) >= 10 else 1]
        for at in range(word.start(), word.end(), step)
    ]


def check(text: str, token_spans: TokenSpans, limit: int) -> None:
    """Assert the properties of the passages of any text."""
    cut = cut_passages(text, token_spans, limit)
    pieces = token_spans(text)
    assert all(one.end <= two.start for one, two in pairwise(cut)), "passages overlap or are out of order"
    assert all(text[slice(*span)].strip() == text[slice(*span)] != "" for span in cut), "white space at an end"
    held: dict[Span, set[int]] = {span: set() for span in cut}
    for piece in pieces:
        span = cut[bisect_right(cut, piece.start, key=lambda span: span.start) - 1]
        assert span.start <= piece.start, "a piece begins before the first passage"
        assert piece.end <= span.end, "a piece is cut, or in no passage"
        held[span].add(piece.start)
    for span in cut:
        assert len(token_spans(text[slice(*span)])) <= limit or len(held[span]) == 1
        rest = text[sorted(held[span])[passages.ENOUGH - 1] : span.end] if len(held[span]) > passages.ENOUGH else ""
        assert not re.search(r"\n\s*\n", rest), "a passage goes on after a paragraph, with enough tokens"
    assert bool(cut) == bool(text.strip())


@given(texts, st.integers(1, 12) | st.integers(passages.ENOUGH, 140), st.sampled_from([thirds, greedy]))
def test_passages_contain_every_token_in_order_and_at_most_the_limit_each(
    text: str, limit: int, token_spans: TokenSpans
) -> None:
    check(text, token_spans, limit)


@given(texts, st.integers(4, 30) | st.integers(passages.ENOUGH, 140))
def test_the_same_holds_for_the_model_s_own_tokenizer(token_spans: TokenSpans, text: str, limit: int) -> None:
    check(text, token_spans, limit)


@settings(max_examples=effort(quick=10, long=100))
@given(st.lists(words, min_size=1, max_size=20), st.sampled_from([" ", "\n" * 100, "\u3000"]), st.integers(1, 130))
def test_the_same_holds_for_long_texts(token_spans: TokenSpans, few: list[str], gap: str, limit: int) -> None:
    text = gap.join(few * (40_000 // len(gap.join(few) + gap) + 1))
    check(text, token_spans, limit)


def test_passages_end_between_words_and_a_text_is_tokenized_once_unless_a_word_is_cut() -> None:
    read: list[str] = []

    def token_spans(text: str) -> list[Span]:
        read.append(text)
        return thirds(text)

    text = "abcdef ab abcdefghi abc"
    assert [text[slice(*span)] for span in cut_passages(text, token_spans, 4)] == ["abcdef ab", "abcdefghi abc"]
    assert read == [text]


def test_a_passage_fits_where_the_tokenizer_reads_over_white_space() -> None:
    """As BERT's does, which removes form feeds. What continues a word is one token, and several at its beginning."""

    def token_spans(text: str) -> list[Span]:
        found = list(re.finditer(r"(?<=\f)[a-z]+|[a-z]", text))
        return [Span(*each.span()) for each in found]

    text = "\f".join(["abc"] * 10)
    cut = [text[slice(*span)] for span in cut_passages(text, token_spans, 4)]
    assert "".join(cut).replace("\f", "") == "abc" * 10
    assert max(len(token_spans(passage)) for passage in cut) <= 4


def paragraph(tokens: int) -> str:
    """Return a paragraph with so many tokens."""
    return " ".join(["abc"] * tokens)


@pytest.mark.parametrize("blank_line", ["\n\n", "\n \t\n", "\r\n\r\n", "\n\n\n\n"])
def test_a_passage_ends_at_the_first_blank_line_after_enough_tokens(blank_line: str) -> None:
    first, second, third = paragraph(30), paragraph(passages.ENOUGH - 30), paragraph(30)
    text = blank_line.join([first, second, third])
    assert [text[slice(*span)] for span in cut_passages(text, thirds, 126)] == [first + blank_line + second, third]


def test_a_passage_with_fewer_tokens_goes_on_after_a_blank_line() -> None:
    two = paragraph(passages.ENOUGH - 1) + "\n\n" + paragraph(2)
    text = two + "\n\n" + paragraph(1)
    assert [text[slice(*span)] for span in cut_passages(text, thirds, 126)] == [two, paragraph(1)]


def test_a_line_is_no_paragraph() -> None:
    text = "\n".join([paragraph(passages.ENOUGH), paragraph(passages.ENOUGH)])
    assert cut_passages(text, thirds, 2 * passages.ENOUGH) == [Span(0, len(text))]


def test_a_paragraph_longer_than_the_limit_is_cut_at_the_limit() -> None:
    text = paragraph(20) + "\n\n" + paragraph(100)
    cut = [text[slice(*span)] for span in cut_passages(text, thirds, 60)]
    assert cut == [paragraph(20) + "\n\n" + paragraph(40), paragraph(60)]


def test_only_a_word_with_more_tokens_than_the_limit_is_cut() -> None:
    text = "ab " + "x" * 15 + " ab"
    assert [text[slice(*span)] for span in cut_passages(text, thirds, 3)] == ["ab", "x" * 9, "x" * 6 + " ab"]


def test_a_passage_is_shortened_if_cutting_a_word_gives_more_tokens() -> None:
    def fall_apart(text: str) -> list[Span]:
        """Return pieces of three characters, single ones in a text of fewer than twelve."""
        return [Span(at, at + step) for step in [3 if len(text) >= 12 else 1] for at in range(0, len(text), step)]

    assert cut_passages("x" * 15, fall_apart, 3) == [Span(at, at + 3) for at in range(0, 15, 3)]


def test_text_without_tokens_is_one_passage_and_blank_text_has_none() -> None:
    def no_pieces(_text: str) -> list[Span]:
        return []

    assert cut_passages("  \u200b ", no_pieces, 4) == [Span(2, 3)]
    assert cut_passages(" \n ", no_pieces, 4) == []
    assert cut_passages("", no_pieces, 4) == []


@pytest.mark.parametrize("text", ["some words " * 40_000, "x" * 500_000, " " * 100_000 + "x" * 100_000])
def test_at_most_one_block_is_tokenized_at_a_time(text: str) -> None:
    longest = 0

    def measured(text: str) -> list[Span]:
        nonlocal longest
        longest = max(longest, len(text))
        return thirds(text)

    cut_passages(text, measured, 128)
    assert passages.BLOCK - len("words ") <= longest <= passages.BLOCK


def test_a_word_as_long_as_a_block_is_not_cut_at_the_block(token_spans: TokenSpans) -> None:
    text = " " * 10_000 + "a " + "x" * passages.BLOCK + " b"
    cut = cut_passages(text, token_spans, 1)
    assert [text[slice(*span)] for span in cut] == ["a", "x" * passages.BLOCK, "b"]
