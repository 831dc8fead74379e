"""Cutting files into chunks with lines."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.files.index_file import CHUNK_TOKENS, OVERLAP_TOKENS
from vector_memory.files.search import lines_of
from vector_memory.texts.chunks import chunk_document

SIZE, OVERLAP = 40, 8


class Piece(NamedTuple):
    text: str
    start_line: int
    end_line: int


def cut_file(
    text: str, count: Callable[[str], int], size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS
) -> list[Piece]:
    """Cut a text as a file is cut."""
    chunks = chunk_document(text, count, size, overlap, by_headings=False)
    return [Piece(chunk.text, *lines_of(chunk, text)) for chunk in chunks]


def words(text: str) -> int:
    return len(text.split())


def sentence(name: str, length: int) -> str:
    return " ".join(f"{name}{number}" for number in range(length - 1)) + " end."


TEXTS = st.lists(
    st.sampled_from(["a", "word", "word.", "ünïcode", "\n", "\n\n", "\n \n", "  ", "# Head\n", "。", "x" * 300, "\t"]),
    max_size=120,
).map(lambda pieces: "".join(piece + " " if piece.strip() else piece for piece in pieces))


def test_a_short_file_is_one_chunk_from_its_first_line_of_text_to_its_last() -> None:
    assert cut_file("\n\n# Title\n\nText.\n\n\n", words) == [("# Title\n\nText.", 3, 5)]


def test_chunks_end_where_paragraphs_end() -> None:
    paragraphs = [sentence(f"p{number}w", 15) for number in range(8)]
    chunks = cut_file("\n\n".join(paragraphs), words, SIZE, OVERLAP)
    assert all(any(chunk.text.endswith(paragraph) for paragraph in paragraphs) for chunk in chunks)


def test_a_paragraph_that_fits_is_not_cut_even_if_the_overlap_must_be_shorter() -> None:
    before, whole = sentence("a", 8), sentence("c", 38)
    chunks = cut_file(f"{before}\n\n{whole}\n\n{sentence('d', 30)}", words, SIZE, OVERLAP)
    assert [chunk.text for chunk in chunks[:2]] == [before, f"end.\n\n{whole}"]


def test_a_paragraph_that_is_too_long_is_cut_between_sentences() -> None:
    chunks = cut_file(" ".join([sentence(f"s{number}w", 12) for number in range(10)]), words, SIZE, OVERLAP)
    assert len(chunks) > 1
    assert all(chunk.text.endswith("end.") for chunk in chunks)


def test_a_lone_heading_is_not_a_chunk_of_its_own() -> None:
    chunks = cut_file(f"# Heading\n\n{' '.join(sentence('w', 10) for _ in range(12))}", words, SIZE, OVERLAP)
    assert chunks[0].text.startswith("# Heading\n\nw0")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_are_counted_by_line_feeds(line_end: str) -> None:
    one, two, six = (sentence(name, 30) for name in ("one", "two\u2028\x0b", "six"))
    text = line_end.join([one, "", two, "and", "", six])
    assert [(chunk.start_line, chunk.end_line) for chunk in cut_file(text, words, 70, 0)] == [(1, 1), (3, 4), (6, 6)]


@given(TEXTS)
def test_a_chunk_is_the_text_of_its_lines(text: str) -> None:
    lines = text.split("\n")
    for chunk in cut_file(text, words, SIZE, OVERLAP):
        assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        first_line, last_line = chunk.text.split("\n")[0], chunk.text.split("\n")[-1]
        assert first_line in lines[chunk.start_line - 1]
        assert last_line in lines[chunk.end_line - 1]
        assert chunk.text == chunk.text.rstrip()
        assert chunk.text.strip()


def test_neighbours_share_some_text_but_at_most_the_overlap_however_long_their_paragraph_is() -> None:
    numbered = [f"w{number}{'.' * (number % 7 == 0)}" for number in range(400)]
    for length in range(len(numbered)):
        for before, after in pairwise(cut_file(" ".join(numbered[:length]), words, SIZE, OVERLAP)):
            assert 1 <= len(set(before.text.split()) & set(after.text.split())) <= OVERLAP, length


def test_a_very_long_line_and_many_blank_lines_are_cut_quickly() -> None:
    assert len(cut_file("x" * 1_000_000, lambda text: len(text) // 3 + 1)) > 1_000
    assert len(cut_file("\n" * 200_000 + "a" + " " * 200_000 + "\n \n" * 50_000 + "b", words)) == 1
