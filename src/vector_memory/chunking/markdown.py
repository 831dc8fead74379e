"""Splits a Markdown document into chunks: first at headings, then by size. Every chunk is a slice of the document."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.chunking.structure import Structure, read_structure
from vector_memory.domain import Chunk, Span
from vector_memory.errors import ChunkingError

if TYPE_CHECKING:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

# Tried in this order. The text is already split at fences and headings, so they are not in the list.
SEPARATORS = [
    r"\n\s*\n|\r\s*\r",  # blank line
    r"\n|\r(?!\n)",  # line
    r"(?<=[.!?…])\s+|(?<=[。！？])",  # sentence  # noqa: RUF001  Chinese and Japanese full stops
    r"\s+",  # word
    r"(?s:.{16})",  # parts of a very long word: needs a sixteenth of the counting, and the counts add up better
    "",  # character
]

LINE_START = re.compile(r"(?<=[\r\n])[^\S\r\n]*\S")
WORD_START = re.compile(r"(?<!\S)\S")

MAX_CHUNKS = 5_000
"""Maximum number of chunks of a document."""

JOINED_LENGTH = 500
"""Characters. In a document of more than MAX_CHUNKS sections, neighbouring sections are joined up to this length."""

# The overlap is searched for within this many characters per token; English has four.
OVERLAP_WINDOW = 8


class Piece(NamedTuple):
    """A range of the document without surrounding white space (a first line keeps its indentation), and its tokens."""

    start: int
    end: int
    tokens: int


def chunk_document(text: str, count_tokens: Callable[[str], int], size: int, overlap: int) -> list[Chunk]:
    """Split a Markdown document into chunks of at most `size` tokens, in order.

    A document that fits is one chunk. Otherwise every heading starts a chunk, except that a bare heading stays with its
    first subheading. A section that does not fit is split further, and its chunks share up to `overlap` tokens with
    their neighbours. Code fences are never split: a fence longer than `size` is a separate chunk, marked oversized. An
    unclosed fence is split like text. Only white space can be outside all chunks; blank text has none.

    In a document of more than 5,000 sections, small neighbouring sections are joined. If there would still be more than
    5,000 chunks, chunks are longer than `size` and marked oversized.

    `count_tokens` need not be additive. ChunkingError: `overlap` is more than half of `size`.
    """
    if size < 1 or not 0 <= overlap <= size // 2:
        raise ChunkingError("The chunk size must be at least 1 token, and the overlap at most half of it.")
    if not text.strip():
        return []
    cutter = _Cutter(text, read_structure(text), count_tokens, size, overlap)
    whole = Piece(0, len(text), count_tokens(text))
    pieces = [whole] if whole.tokens <= size else cutter.cut_document()
    return [cutter.describe(index, piece) for index, piece in enumerate(pieces)]


@dataclass(frozen=True)
class _Cutter:
    """Splits one document. Chunks after the first one of a section leave room for the overlap in front of them."""

    text: str
    structure: Structure
    count_tokens: Callable[[str], int]
    size: int
    overlap: int

    @property
    def room(self) -> int:
        return self.size - self.overlap

    def cut_document(self) -> list[Piece]:
        units = list(self.units())
        stretches = units if len(units) <= MAX_CHUNKS else self.joined(units)
        pieces = [piece for start, end in stretches for piece in self.cut(start, end)]
        limit = self.size
        while len(pieces) > MAX_CHUNKS:
            limit *= 2
            pieces = self.pack(pieces, limit, limit)
        return pieces

    def units(self) -> Iterator[Span]:
        """Yield the units of stage one: each section, bare headings together with the subheading they introduce."""
        start = None
        sections = self.structure.sections
        for section, following in zip_longest(sections, sections[1:]):
            start = section.start if start is None else start
            if not section.introduces(following):
                yield Span(start, section.end)
                start = None

    def joined(self, units: Iterable[Span]) -> Iterator[Span]:
        """Yield groups of neighbouring units; a half-full group ends before a heading of a higher level."""
        stretch, top = Span(0, 0), 0
        for unit in units:
            level = self.structure.sections[self.structure.section_at(unit.start)].level
            length = stretch.end - stretch.start
            is_full = unit.end - stretch.start > JOINED_LENGTH or (level < top and length * 2 >= JOINED_LENGTH)
            if length and is_full:
                yield stretch
            if is_full or not length:
                stretch, top = unit, level
            else:
                stretch = Span(stretch.start, unit.end)
        yield stretch

    def cut(self, start: int, end: int) -> list[Piece]:
        """Return one piece if the unit fits, or else the pieces of stage two."""
        whole = self.measure(start, end)
        if whole.tokens <= self.size:
            return [whole]
        pieces = self.pack([piece for piece in self.split(start, end) if piece.end > piece.start], self.size, self.room)
        chunks = pieces[:1]
        for before, piece in pairwise(pieces):
            chunk = self.with_overlap(before, piece)
            if chunk.start <= chunks[-1].start:
                chunks.pop()  # so short that the overlap holds all of it
            chunks.append(chunk)
        return chunks

    def split(self, start: int, end: int) -> Iterator[Piece]:
        """Yield whole fences, and the text between them in pieces; some may be empty."""
        for fence in self.structure.fences_in(start, end):
            yield from self.split_text(start, fence.start)
            yield self.measure(*fence)
            start = fence.end
        yield from self.split_text(start, end)

    def split_text(self, start: int, end: int) -> Iterator[Piece]:
        for part in self.splitter.split_text(self.text[start:end]):
            yield from self.bounded(start, start + len(part))
            start += len(part)
        if start != end:
            raise ChunkingError("The text splitter lost text: please report your version of langchain-text-splitters.")

    def bounded(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the range, halved until it fits: joined parts can have more tokens than langchain's sum."""
        piece = self.measure(start, end)
        if piece.tokens <= self.room or piece.end - piece.start <= 1:
            yield piece
        else:
            middle = (piece.start + piece.end) // 2
            yield from self.bounded(piece.start, middle)
            yield from self.bounded(middle, piece.end)

    def pack(self, pieces: list[Piece], first_limit: int, limit: int) -> list[Piece]:
        """Join neighbours while they fit. `first_limit`: the size of the first chunk."""
        chunks: list[Piece] = []
        first = 0
        while first < len(pieces):
            chunk, first = self.join(pieces, first, limit if chunks else first_limit)
            chunks.append(chunk)
        return chunks

    def join(self, pieces: list[Piece], first: int, limit: int) -> tuple[Piece, int]:
        """Join the pieces from `first` that fit into `limit`, at least one; return them and the index of the next."""
        last = first
        total = pieces[first].tokens
        while last + 1 < len(pieces) and (total := total + 1 + pieces[last + 1].tokens) <= limit:
            last += 1
        chunk = self.measure(pieces[first].start, pieces[last].end)
        while chunk.tokens > limit and last > first:
            last = (first + last) // 2
            chunk = self.measure(pieces[first].start, pieces[last].end)
        return chunk, last + 1

    def with_overlap(self, before: Piece, chunk: Piece) -> Piece:
        """Return `chunk` extended backwards within `before` if there is room: in the same section, without a fence.

        It starts at a line if that costs less than half of the overlap (table rows, list items), or else at a word.
        """
        budget = min(self.overlap, self.size - chunk.tokens - 1)
        end = before.end
        lowest = max(before.start, self.barrier(chunk.start), end - OVERLAP_WINDOW * self.overlap)
        if budget < 1 or lowest >= end:
            return chunk
        fits = bisect_left(range(lowest, end), x=True, key=lambda at: self.count_tokens(self.text[at:end]) <= budget)
        start = lowest + fits
        found = LINE_START.search(self.text, start, (start + end) // 2) or WORD_START.search(self.text, start, end)
        longer = self.measure(found.start() if found else start, chunk.end)
        return longer if longer.tokens <= self.size else chunk

    def barrier(self, offset: int) -> int:
        """Return how far back an overlap before `offset` may reach: to the section's start or the end of a fence."""
        section = self.structure.sections[self.structure.section_at(offset)]
        fences = self.structure.fences_in(section.start, offset)
        return fences[-1].end if fences else section.start

    def measure(self, start: int, end: int) -> Piece:
        start, end = _trim(self.text, start, end)
        return Piece(start, end, self.count_tokens(self.text[start:end]) if start < end else 0)

    def describe(self, index: int, piece: Piece) -> Chunk:
        start, end = _trim(self.text, piece.start, piece.end)
        headings = self.structure.path(start, end)
        kind = "section" if headings else "text"
        return Chunk(
            index=index,
            text=self.text[piece.start : piece.end],
            start=piece.start,
            end=piece.end,
            kind="code_block" if self.structure.is_fence(start, end) else kind,
            token_count=piece.tokens,
            headings=headings,
            level=len(headings[-1].split(" ", 1)[0]) if headings else 0,
            contains_code=self.structure.has_code(start, end),
            contains_table=self.structure.has_table(start, end),
            oversized=piece.tokens > self.size,
        )

    @cached_property
    def splitter(self) -> "RecursiveCharacterTextSplitter":
        """Langchain's splitter, configured so that its joined parts are the text: their lengths give exact offsets.

        Its own overlap and `add_start_index` are not used: it searches the index from an offset that treats the
        overlap, counted in tokens, as characters, so the index can be wrong or -1.
        """
        from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415  0.3 s, for long texts only

        return RecursiveCharacterTextSplitter(
            separators=SEPARATORS,
            is_separator_regex=True,
            keep_separator="start",
            strip_whitespace=False,
            chunk_size=self.room,
            chunk_overlap=0,
            length_function=_length_function(self.count_tokens),
        )


def _length_function(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Return `count_tokens` with a cache, because the splitter counts the same words again and again.

    White space counts as at least 1. Otherwise a chunk could have any number of parts, and the time grows with their
    square.
    """
    remembered = lru_cache(maxsize=1 << 16)(count_tokens)

    def length(part: str) -> int:
        count = remembered if len(part) <= 32 else count_tokens  # noqa: PLR2004  words, not whole texts
        return max(1, count(part)) if part else 0

    return length


def _trim(text: str, start: int, end: int) -> Span:
    """Return the range without white space at its ends; a whole first line keeps its indentation."""
    body = text[start:end]
    first = end - len(body.lstrip())
    if first == end:
        return Span(end, end)
    before = max(0, start - 1)
    line = max(text.rfind("\n", before, first), text.rfind("\r", before, first)) + 1
    return Span(line if line >= start else first, start + len(body.rstrip()))
