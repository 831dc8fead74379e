"""A document has at most 5,000 chunks, whatever it contains; only those that would have more are cut differently."""

from itertools import pairwise

import pytest

from vector_memory.chunking import MAX_CHUNKS, chunk_document
from vector_memory.chunking.tokens import estimate_tokens
from vector_memory.domain import Chunk

MORE = MAX_CHUNKS + 1_000
TEXTS = {
    "headings": "# a\n" * MORE,
    "lone headings": "#\n" * MORE,
    "sections": "# a\nb\n" * MORE,
    "nested headings": "# a\nb\n## a\nb\n###### a\nb\n" * (MORE // 3),
    "fences": "# a\n```\nb\n```\n" * MORE,
    "a long section among short ones": "# a\n" * MORE + "word " * 3_000 + "# a\n" * 10,
}


def require_whole(text: str, chunks: list[Chunk]) -> None:
    """Fail unless all of the text but white space is in chunks, in order."""
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in chunks)
    assert all(one.start < two.start and one.end < two.end for one, two in pairwise(chunks))
    assert not "".join(text[one.end : two.start] for one, two in pairwise(chunks)).strip()
    assert not (text[: chunks[0].start] + text[chunks[-1].end :]).strip()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_document_with_too_many_sections_gets_chunks_of_several_sections(text: str) -> None:
    chunks = chunk_document(text, estimate_tokens, 450, 50)
    assert len(chunks) < MAX_CHUNKS // 2
    assert not any(chunk.oversized for chunk in chunks)
    require_whole(text, chunks)


def test_chunks_are_longer_than_requested_rather_than_too_many() -> None:
    text = "word " * (8 * MORE)
    chunks = chunk_document(text, lambda part: len(part.split()), 8, 2)
    assert len(chunks) <= MAX_CHUNKS
    require_whole(text, chunks)


def test_sections_are_joined_under_the_heading_that_they_share() -> None:
    parts = "".join(f"## {part}\nb\n" for part in range(60))
    chapters = [f"# Chapter {number}\n{parts}" for number in range(MORE // 60)]
    chunks = chunk_document("".join(chapters), estimate_tokens, 450, 50)
    assert [chunk.headings for chunk in chunks] == [(f"# Chapter {number}",) for number in range(MORE // 60)]


def test_a_document_with_the_maximum_number_of_sections_is_cut_at_each() -> None:
    chunks = chunk_document("# a\nb\n" * MAX_CHUNKS, estimate_tokens, 450, 50)
    assert len(chunks) == MAX_CHUNKS
