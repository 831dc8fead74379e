"""Cuts a text file into overlapping chunks and finds the lines of each.

The text is first cut into small parts, each of which starts at a paragraph, a sentence (or line), or a word. A chunk
takes as many parts as fit, and ends with a paragraph if possible, else with a sentence. A paragraph is cut only if it
is longer than a chunk.
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
"""Minimum. No part is longer than the overlap, so neighbours can always share one."""

LONGEST_TOKEN = 32
"""Characters per token. A longer stretch is halved before its tokens are counted: counting a very long line is slow."""

PARAGRAPH = re.compile(r"\n\s*\n(?=[^\S\n]*\S)")
SENTENCE = re.compile(r"\n(?=[^\S\n]*\S)|(?<=[.!?…])[^\S\n]+(?=\S)|(?<=[。！？])(?=\S)")  # noqa: RUF001 - Chinese stops
WORD_START = re.compile(r"(?<=\s)\S")


class Boundary(IntEnum):
    """What starts with a part. The smallest value is the best place to cut."""

    PARAGRAPH = 0
    SENTENCE = 1
    WORD = 2


class Segment(NamedTuple):
    """A part of a text, up to the start of the next one. `tokens`: how many it has."""

    start: int
    boundary: Boundary
    tokens: int


class FileChunk(NamedTuple):
    """A chunk of a file, with its first and last line, counted from 1.

    If a long line was cut, the chunk contains only a part of its first or last line.
    """

    text: str
    start_line: int
    end_line: int


def cut_file(
    text: str, count_tokens: Callable[[str], int], size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS
) -> list[FileChunk]:
    """Cut a text into chunks of at most about `size` tokens, in order. Neighbours share up to about `overlap` tokens.

    The sizes are approximate because tokens are counted part by part. Only white space is left out of all chunks; blank
    text has no chunks.
    """
    parts = cut_parts(text, count_tokens, max(1, size // PARTS_PER_CHUNK))
    starts = [part.start for part in parts] + [len(text)]
    lines = [at for at, character in enumerate(text) if character == "\n"]
    chunks = (with_lines(text, starts[first], starts[end], lines) for first, end in join_parts(parts, size, overlap))
    return [chunk for chunk in chunks if chunk.text]


def cut_parts(text: str, count_tokens: Callable[[str], int], limit: int) -> list[Segment]:
    """Cut a text into parts of at most `limit` tokens. Only a single character may have more."""

    def halved(start: int, end: int, boundary: Boundary) -> Iterator[Segment]:
        if end - start <= LONGEST_TOKEN * limit:
            tokens = count_tokens(text[start:end])
            if tokens <= limit or end - start == 1:
                yield Segment(start, boundary, tokens)
                return
        middle = middle_of(text, start, end)
        yield from halved(start, middle, boundary)
        yield from halved(middle, end, Boundary.WORD)

    text = text.rstrip()
    found = boundaries(text)
    stretches = pairwise([*sorted(found), len(text)])
    return [part for start, end in stretches for part in halved(start, end, found[start])]


def boundaries(text: str) -> dict[int, Boundary]:
    """Return where paragraphs and sentences start. The first line that is not blank starts a paragraph."""
    body = text.lstrip()
    if not body:
        return {}
    found = {match.end(): Boundary.SENTENCE for match in SENTENCE.finditer(text)}
    found |= {match.end(): Boundary.PARAGRAPH for match in PARAGRAPH.finditer(text)}
    first = len(text) - len(body)
    later = {at: boundary for at, boundary in found.items() if at > first}
    return {line_start(text, first): Boundary.PARAGRAPH, **later}


def line_start(text: str, at: int) -> int:
    """Return the start of the line that contains a character."""
    return text.rfind("\n", 0, at) + 1


def middle_of(text: str, start: int, end: int) -> int:
    """Return where to halve a stretch of two or more characters: near the middle, between words if possible."""
    middle = (start + end) // 2
    after = WORD_START.search(text, middle, (middle + end + 1) // 2)
    return after.start() if after else middle


def join_parts(parts: Sequence[Segment], size: int, overlap: int) -> list[tuple[int, int]]:
    """Return each chunk as a half-open range of parts."""
    totals = list(accumulate((part.tokens for part in parts), initial=0))
    paragraphs = [at for at, part in enumerate(parts) if part.boundary is Boundary.PARAGRAPH] + [len(parts)]
    chunks: list[tuple[int, int]] = []
    first = 0
    while first < len(parts):
        paragraph_end = paragraphs[bisect_right(paragraphs, first)]
        start = overlap_start(parts, totals, first, overlap)
        start, end = chunk_range(parts, totals, start, first, paragraph_end, size)
        if chunks and start <= chunks[-1][0]:
            chunks.pop()  # the overlap contains all of it
        chunks.append((start, end))
        first = end
    return chunks


def overlap_start(parts: Sequence[Segment], totals: Sequence[int], first: int, overlap: int) -> int:
    """Return the first part of a chunk whose new content starts at `first`: the start of a sentence, if one is near."""
    earliest = bisect_left(totals, totals[first] - overlap, hi=first)
    sentences = (at for at in range(earliest, first) if parts[at].boundary < Boundary.WORD)
    return next(sentences, earliest)


def chunk_range(
    parts: Sequence[Segment], totals: Sequence[int], start: int, first: int, paragraph_end: int, size: int
) -> tuple[int, int]:
    """Return the range of the chunk whose new content starts at `first`. It has at least one new part.

    It starts at `start`, or later if a paragraph starts at `first` and only then fits as a whole.
    """
    reach = bisect_right(totals, totals[start] + size) - 1
    if reach == len(parts):
        return start, reach
    if paragraph_end <= reach:
        return start, last_boundary(parts, first, reach, Boundary.PARAGRAPH)
    if parts[first].boundary is Boundary.PARAGRAPH and totals[paragraph_end] - totals[first] <= size:
        return bisect_left(totals, totals[paragraph_end] - size, lo=start, hi=first), paragraph_end
    return start, last_boundary(parts, first, reach, Boundary.SENTENCE)


def last_boundary(parts: Sequence[Segment], first: int, reach: int, boundary: Boundary) -> int:
    """Return the last part after `first`, up to `reach`, that starts at such a boundary or a better one.

    If there is none, return `reach`, or the part after `first` if that is later.
    """
    found = (at for at in range(reach, first, -1) if parts[at].boundary <= boundary)
    return next(found, max(reach, first + 1))


def with_lines(text: str, start: int, end: int, line_ends: Sequence[int]) -> FileChunk:
    """Return a stretch of the text with its line numbers, without trailing white space."""
    body = text[start:end].rstrip()
    last = start + len(body) - 1
    return FileChunk(body, bisect_left(line_ends, start) + 1, bisect_left(line_ends, last) + 1)
