"""Cuts a text file into chunks that overlap, and says on which lines each of them stands.

The text is cut into small parts first, each of which begins a paragraph, a sentence (or line), or only a word. A chunk
takes as many parts as fit, and ends where a paragraph ends; if it would have to be in the middle of one, where a
sentence ends. So a paragraph is cut only if it alone is too long.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80

PARTS_PER_CHUNK = 5
"""At least: no part is longer than the overlap, so that there always is one that can be shared."""

LONGEST_TOKEN = 32
"""What has more characters a token is cut in two without being counted: that takes long for an endless line."""

PARAGRAPH = re.compile(r"\n\s*\n(?=[^\S\n]*\S)")
SENTENCE = re.compile(r"\n(?=[^\S\n]*\S)|(?<=[.!?…])[^\S\n]+(?=\S)|(?<=[。！？])(?=\S)")  # noqa: RUF001 - Chinese stops
WORD = re.compile(r"(?<=\s)\S")


class Boundary(IntEnum):
    """What begins where a part begins; the smaller, the better a place to cut."""

    PARAGRAPH = 0
    SENTENCE = 1
    WORD = 2


class Part(NamedTuple):
    """A stretch of text up to the beginning of the next one. `tokens`: its own number."""

    start: int
    boundary: Boundary
    tokens: int


class FileChunk(NamedTuple):
    """A chunk of a file: what stands on its lines, counted from 1, the last one included.

    Where a long line is cut, it holds a part of the first or last line only.
    """

    text: str
    start_line: int
    end_line: int


def cut_file(
    text: str, count_tokens: Callable[[str], int], size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS
) -> list[FileChunk]:
    """Cut a text into chunks of at most about `size` tokens, in order; neighbours share up to about `overlap` tokens.

    Tokens are counted part by part, and added. Only white space is outside of all chunks; blank text has none.
    """
    parts = cut_parts(text, count_tokens, max(1, size // PARTS_PER_CHUNK))
    starts = [part.start for part in parts] + [len(text)]
    lines = [at for at, character in enumerate(text) if character == "\n"]
    chunks = (located(text, starts[first], starts[end], lines) for first, end in packed(parts, size, overlap))
    return [chunk for chunk in chunks if chunk.text]


def cut_parts(text: str, count_tokens: Callable[[str], int], limit: int) -> list[Part]:
    """Cut a text into parts of at most `limit` tokens, but for a single character that has more."""

    def halved(start: int, end: int, boundary: Boundary) -> Iterator[Part]:
        if end - start <= LONGEST_TOKEN * limit:
            tokens = count_tokens(text[start:end])
            if tokens <= limit or end - start == 1:
                yield Part(start, boundary, tokens)
                return
        middle = middle_of(text, start, end)
        yield from halved(start, middle, boundary)
        yield from halved(middle, end, Boundary.WORD)

    text = text.rstrip()
    places = boundaries(text)
    stretches = pairwise([*sorted(places), len(text)])
    return [part for start, end in stretches for part in halved(start, end, places[start])]


def boundaries(text: str) -> dict[int, Boundary]:
    """Return where paragraphs and sentences begin; a text that is not blank begins a paragraph where it begins."""
    body = text.lstrip()
    if not body:
        return {}
    found = {match.end(): Boundary.SENTENCE for match in SENTENCE.finditer(text)}
    found |= {match.end(): Boundary.PARAGRAPH for match in PARAGRAPH.finditer(text)}
    first = len(text) - len(body)
    later = {at: boundary for at, boundary in found.items() if at > first}
    return {line_start(text, first): Boundary.PARAGRAPH, **later}


def line_start(text: str, at: int) -> int:
    """Return where the line that holds a character begins."""
    return text.rfind("\n", 0, at) + 1


def middle_of(text: str, start: int, end: int) -> int:
    """Return where to cut a stretch of more than one character in two: near the middle, between words if possible."""
    middle = (start + end) // 2
    after = WORD.search(text, middle, (middle + end + 1) // 2)
    return after.start() if after else middle


def packed(parts: Sequence[Part], size: int, overlap: int) -> list[tuple[int, int]]:
    """Return each chunk as the index of its first part and of the part after its last."""
    totals = list(accumulate((part.tokens for part in parts), initial=0))
    paragraphs = [at for at, part in enumerate(parts) if part.boundary is Boundary.PARAGRAPH] + [len(parts)]
    chunks: list[tuple[int, int]] = []
    first = 0
    while first < len(parts):
        paragraph_end = paragraphs[bisect_right(paragraphs, first)]
        start = overlap_start(parts, totals, first, overlap)
        start, end = chunk_range(parts, totals, start, first, paragraph_end, size)
        if chunks and start <= chunks[-1][0]:
            chunks.pop()  # so short that the overlap holds all of it
        chunks.append((start, end))
        first = end
    return chunks


def overlap_start(parts: Sequence[Part], totals: Sequence[int], first: int, overlap: int) -> int:
    """Return the part with which a chunk begins whose new content begins at `first`: at a sentence, if one is near."""
    earliest = bisect_left(totals, totals[first] - overlap, hi=first)
    sentences = (at for at in range(earliest, first) if parts[at].boundary < Boundary.WORD)
    return next(sentences, earliest)


def chunk_range(
    parts: Sequence[Part], totals: Sequence[int], start: int, first: int, paragraph_end: int, size: int
) -> tuple[int, int]:
    """Return where the chunk with new content from `first` on begins and ends.

    It begins at `start`, or later where a whole paragraph begins at `first` and has room only then. It has at least one
    new part.
    """
    reach = bisect_right(totals, totals[start] + size) - 1
    if reach == len(parts):
        return start, reach
    if paragraph_end <= reach:
        return start, last_boundary(parts, first, reach, Boundary.PARAGRAPH)
    if parts[first].boundary is Boundary.PARAGRAPH and totals[paragraph_end] - totals[first] <= size:
        return bisect_left(totals, totals[paragraph_end] - size, lo=start, hi=first), paragraph_end
    return start, last_boundary(parts, first, reach, Boundary.SENTENCE)


def last_boundary(parts: Sequence[Part], first: int, reach: int, boundary: Boundary) -> int:
    """Return the last part after `first`, up to `reach`, that begins so well; if there is none, the last of them."""
    found = (at for at in range(reach, first, -1) if parts[at].boundary <= boundary)
    return next(found, max(reach, first + 1))


def located(text: str, start: int, end: int, line_ends: Sequence[int]) -> FileChunk:
    """Return a stretch of the text with its lines, without the white space that follows it."""
    body = text[start:end].rstrip()
    last = start + len(body) - 1
    return FileChunk(body, bisect_left(line_ends, start) + 1, bisect_left(line_ends, last) + 1)
