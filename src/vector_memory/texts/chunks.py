"""Splits a Markdown document into chunks: first at headings, then by size. Every chunk is a slice of the document."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.domain import Chunk, Span
from vector_memory.errors import ChunkingError
from vector_memory.texts.structure import Structure, read_structure

if TYPE_CHECKING:
    from langchain_text_splitters import RecursiveCharacterTextSplitter


# Tried in this order. The text is already split at fences and headings, so they are not in the list.
SEPARATORS = [
    r"\n\s*\n|\r\s*\r",  # blank line
    r"\n|\r(?!\n)",  # line
    r"(?<=[.!?…])\s+|(?<=[。！？])",  # sentence  # noqa: RUF001  Chinese and Japanese full stops
    r"\s+",  # word
    r"(?s:.{256})",  # parts of encoded data
    r"(?s:.{16})",  # parts of a very long word: a sixteenth of the counting, and sums of counts are more exact
    "",  # character
]

PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*|\Z")

LINE_START = re.compile(r"(?<=[\r\n])[^\S\r\n]*\S")
WORD_START = re.compile(r"(?<!\S)\S")

MAX_CHUNKS = 5_000
"""Maximum number of chunks of a document."""

JOINED_LENGTH = 500
"""Characters. In a document of more than MAX_CHUNKS sections, neighbouring sections are joined up to this length."""

# The overlap is searched for within this many characters per token; English has four.
OVERLAP_WINDOW = 8


class Segment(NamedTuple):
    """A range of the document without surrounding white space (a first line keeps its indentation), and its tokens."""

    start: int
    end: int
    tokens: int


def chunk_document(
    text: str, count_tokens: Callable[[str], int], size: int, overlap: int, *, by_headings: bool = True
) -> list[Chunk]:
    """Split a Markdown document into chunks of at most `size` tokens, in order.

    A document that fits is one chunk. Otherwise every heading starts a chunk, except that a bare heading stays with its
    first subheading. A section that does not fit is split further, and its chunks share up to `overlap` tokens with
    their neighbours. Code fences are never split: a fence longer than `size` is a separate chunk, marked oversized. An
    unclosed fence is split like text. Chunks contain everything except white space; blank text has none.

    Without `by_headings`, headings and fences do not count: chunks are filled with whole paragraphs, and only a
    paragraph longer than a chunk is cut.

    In a document of more than 5,000 sections, small neighbouring sections are joined. If there would still be more than
    5,000 chunks, chunks are longer than `size` and marked oversized.

    `count_tokens` need not be additive. ChunkingError: `overlap` is more than half of `size`.
    """
    if size < 1 or not 0 <= overlap <= size // 2:
        raise ChunkingError("The chunk size must be at least 1 token, and the overlap at most half of it.")
    if not text.strip():
        return []
    structure = read_structure(text) if by_headings else Structure.of_paragraphs(text)
    splitter = _DocumentSplitter(text, structure, count_tokens, size, overlap, keeps_paragraphs=not by_headings)
    whole = Segment(0, len(text), count_tokens(text)) if by_headings else splitter.measure(0, len(text))
    segments = [whole] if whole.tokens <= size else splitter.split_document()
    return [splitter.as_chunk(index, segment) for index, segment in enumerate(segments)]


@dataclass(frozen=True)
class _DocumentSplitter:
    """Splits one document. Chunks after the first one of a section leave room for the overlap in front of them."""

    text: str
    structure: Structure
    count_tokens: Callable[[str], int]
    size: int
    overlap: int
    keeps_paragraphs: bool

    @property
    def room(self) -> int:
        return self.size - self.overlap

    def split_document(self) -> list[Segment]:
        groups = list(self.section_groups())
        ranges = groups if len(groups) <= MAX_CHUNKS else self.joined(groups)
        segments = [segment for start, end in ranges for segment in self.split_range(start, end)]
        limit = self.size
        while len(segments) > MAX_CHUNKS:
            limit *= 2
            segments = self.pack(segments, limit, limit)
        return segments

    def section_groups(self) -> Iterator[Span]:
        """Yield each section; a bare heading is in the same group as the subheading that it introduces."""
        start = None
        sections = self.structure.sections
        for section, following in zip_longest(sections, sections[1:]):
            start = section.start if start is None else start
            if not section.introduces(following):
                yield Span(start, section.end)
                start = None

    def joined(self, groups: Iterable[Span]) -> Iterator[Span]:
        """Join small neighbouring groups; a half-full result ends before a heading of a higher level."""
        joined, top = Span(0, 0), 0
        for group in groups:
            level = self.structure.sections[self.structure.section_at(group.start)].level
            length = joined.end - joined.start
            is_full = group.end - joined.start > JOINED_LENGTH or (level < top and length * 2 >= JOINED_LENGTH)
            if length and is_full:
                yield joined
            if is_full or not length:
                joined, top = group, level
            else:
                joined = Span(joined.start, group.end)
        yield joined

    def split_range(self, start: int, end: int) -> list[Segment]:
        """Return one segment if the range fits; otherwise split it by size."""
        whole = self.measure(start, end)
        if whole.tokens <= self.size:
            return [whole]
        segments = self.pack(
            [segment for segment in self.split(start, end) if segment.end > segment.start], self.size, self.room
        )
        chunks = segments[:1]
        for before, segment in pairwise(segments):
            chunk = self.with_overlap(before, segment)
            if chunk.start <= chunks[-1].start:
                chunks.pop()  # so short that the overlap contains all of it
            chunks.append(chunk)
        return chunks

    def split(self, start: int, end: int) -> Iterator[Segment]:
        """Yield whole fences, and segments of the text between them; some may be empty."""
        for fence in self.structure.fences_in(start, end):
            yield from self.split_text(start, fence.start)
            yield self.measure(*fence)
            start = fence.end
        yield from self.split_text(start, end)

    def split_text(self, start: int, end: int) -> Iterator[Segment]:
        if not self.keeps_paragraphs:
            yield from self.split_by_size(start, end)
            return
        for found in PARAGRAPH_END.finditer(self.text, start, end):
            whole = self.measure(start, found.end())
            fits = whole.tokens <= self.size
            yield from [whole] if fits else self.split_by_size(start, found.end())
            start = found.end()

    def split_by_size(self, start: int, end: int) -> Iterator[Segment]:
        for part in self.splitter.split_text(self.text[start:end]):
            yield from self.bounded(start, start + len(part))
            start += len(part)
        if start != end:
            raise ChunkingError("The text splitter lost text: please report your version of langchain-text-splitters.")

    def bounded(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the range, halved until it fits: text can have more tokens than the sum that langchain computes."""
        segment = self.measure(start, end)
        if segment.tokens <= self.room or segment.end - segment.start <= 1:
            yield segment
        else:
            middle = (segment.start + segment.end) // 2
            yield from self.bounded(segment.start, middle)
            yield from self.bounded(middle, segment.end)

    def pack(self, segments: list[Segment], first_limit: int, limit: int) -> list[Segment]:
        """Join neighbours while they fit. `first_limit`: the size of the first chunk."""
        chunks: list[Segment] = []
        first = 0
        while first < len(segments):
            chunk, first = self.join(segments, first, limit if chunks else first_limit)
            chunks.append(chunk)
        return chunks

    def join(self, segments: list[Segment], first: int, limit: int) -> tuple[Segment, int]:
        """Join the segments from `first` that fit into `limit`, at least one; also return the index of the next one."""
        last = first
        total = segments[first].tokens
        while last + 1 < len(segments) and (total := total + 1 + segments[last + 1].tokens) <= limit:
            last += 1
        chunk = self.measure(segments[first].start, segments[last].end)
        while chunk.tokens > limit and last > first:
            last = (first + last) // 2
            chunk = self.measure(segments[first].start, segments[last].end)
        return chunk, last + 1

    def with_overlap(self, before: Segment, chunk: Segment) -> Segment:
        """Return `chunk` extended backwards into `before` if there is room: in the same section, without a fence.

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

    def measure(self, start: int, end: int) -> Segment:
        start, end = _trim_lines(self.text, start, end)
        return Segment(start, end, self.count_tokens(self.text[start:end]) if start < end else 0)

    def as_chunk(self, index: int, segment: Segment) -> Chunk:
        start, end = _trim_lines(self.text, segment.start, segment.end)
        headings = self.structure.path(start, end)
        kind = "section" if headings else "text"
        return Chunk(
            index=index,
            text=self.text[segment.start : segment.end],
            start=segment.start,
            end=segment.end,
            kind="code_block" if self.structure.is_fence(start, end) else kind,
            token_count=segment.tokens,
            headings=headings,
            level=len(headings[-1].split(" ", 1)[0]) if headings else 0,
            contains_code=self.structure.has_code(start, end),
            contains_table=self.structure.has_table(start, end),
            oversized=segment.tokens > self.size,
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
    """Return `count_tokens` with a cache, because the splitter counts the same words repeatedly.

    White space counts as at least 1. Otherwise a chunk could have any number of parts, and the time grows with their
    square.
    """
    cached = lru_cache(maxsize=1 << 16)(count_tokens)

    def length(part: str) -> int:
        count = cached if len(part) <= 32 else count_tokens  # noqa: PLR2004  words, not whole texts
        return max(1, count(part)) if part else 0

    return length


def _trim_lines(text: str, start: int, end: int) -> Span:
    """Return the range without white space at its ends; a whole first line keeps its indentation."""
    body = text[start:end]
    first = end - len(body.lstrip())
    if first == end:
        return Span(end, end)
    before = max(0, start - 1)
    line = max(text.rfind("\n", before, first), text.rfind("\r", before, first)) + 1
    return Span(line if line >= start else first, start + len(body.rstrip()))


# Splits text into passages that an embedding model reads whole.

BEGINNING = 0.33
MIDDLE = 0.67


def header(title: str | None, memory_type: str, chunk: Chunk, sibling_count: int) -> str:
    """Return lines with a chunk's document, section, position and memory type, without a final line end.

    `sibling_count`: the document's number of chunks. Unknown values are omitted.
    """
    lines = [
        f"Document: {title}" if title else "",
        f"Section: {chunk.header_path}" if chunk.headings else "",
        f"Position: chunk {chunk.index + 1} of {sibling_count}, {_third(chunk.position(sibling_count))}",
        f"Type: {memory_type}",
    ]
    return "\n".join(line for line in lines if line)


def _third(ratio: float) -> str:
    if ratio < BEGINNING:
        return "beginning"
    return "middle" if ratio < MIDDLE else "end"


TokenSpans = Callable[[str], list[Span]]

# Characters tokenized at once: while it works, a tokenizer needs up to a kilobyte of memory per token.
BLOCK = 16_384

# As many whole words as fit into a block. A "word" longer than a block is cut: it is not a word of any language.
BLOCKS = re.compile(rf"(?s:.{{1,{BLOCK}}})(?:\Z|(?=\s)|(?<=\s))|(?s:.{{1,{BLOCK}}})")

WHITE_SPACE = re.compile(r"\s")

BLANK_LINE = re.compile(r"\n[^\S\n]*\n")

# A passage of this many tokens ends with its paragraph. A vector is the mean of a whole passage: a paragraph between
# others on another subject could hardly be found by other words. Shorter passages would need more vectors.
ENOUGH = 64


def cut_passages(text: str, token_spans: TokenSpans, limit: int) -> list[Span]:
    """Return windows of at most `limit` tokens that together contain every token of `text`, in order.

    A window ends at the first blank line after ENOUGH tokens, or else between words (runs without white space), or
    inside a word that has more than `limit` tokens. It has at most `limit` tokens even when it is tokenized alone,
    unless a single token then splits into more, or a word has others at the beginning of a text. Text without tokens is
    one passage; blank text has none. Windows do not overlap.

    `token_spans` is called with at most 16,384 characters.
    """
    passages = [
        Span(block.start() + window.start, block.start() + window.end)
        for block in BLOCKS.finditer(text)
        for window in _windows(block[0], token_spans, limit)
    ]
    return passages or ([_trim(text, 0, len(text))] if text.strip() else [])


def _windows(text: str, token_spans: TokenSpans, limit: int) -> Iterator[Span]:
    spans = token_spans(text)
    ends = list(accumulate((span.end for span in spans), max))
    cuts = [at for at in range(1, len(spans)) if spans[at].start >= ends[at - 1]] + [len(spans)]
    word_cuts = [
        at
        for at in cuts
        if at == len(spans)
        or text[ends[at - 1] : ends[at - 1] + 1].isspace()  # nearly always, if at all
        or (spans[at].start > ends[at - 1] and WHITE_SPACE.search(text, ends[at - 1], spans[at].start + 1))
    ]
    # Between such places, a text alone has the same tokens. Tokenizers remove some white space inside words, as \f.
    between_words = {0, len(spans), *(at for at in word_cuts[:-1] if text[ends[at - 1]] in " \t\r\n")}
    after_blank_lines = {bisect_right(ends, blank_line.start()) for blank_line in BLANK_LINE.finditer(text)}
    paragraph_cuts = sorted(after_blank_lines.intersection(word_cuts))
    first = 0
    while first < len(spans):
        last = _paragraph_end(first, limit, paragraph_cuts) or _furthest(first, limit, word_cuts, cuts)
        window = _trim(text, spans[first].start, ends[last - 1])
        # A token cut from its word can become several. Take fewer until the window fits or cannot be shorter.
        while (
            not between_words.issuperset((first, last))
            and (excess := len(token_spans(text[slice(*window)])) - limit) > 0
            and last > _next(cuts, first)
        ):
            last = _furthest(first, max(1, last - first - excess), word_cuts, cuts)
            window = _trim(text, spans[first].start, ends[last - 1])
        yield window
        first = last


def _paragraph_end(first: int, room: int, paragraph_cuts: Sequence[int]) -> int | None:
    """Return the index of the token to stop before at the end of a paragraph, if one ends in reach."""
    at = bisect_left(paragraph_cuts, first + ENOUGH)
    return paragraph_cuts[at] if at < len(paragraph_cuts) and paragraph_cuts[at] <= first + room else None


def _furthest(first: int, room: int, word_cuts: Sequence[int], cuts: Sequence[int]) -> int:
    """Return the index of the token to stop before: at most `room` tokens ahead, at a word boundary if possible.

    Several tokens can represent one character, so there may be no possible cut in reach. Then the next one is used.
    """
    for positions in (word_cuts, cuts):
        at = bisect_right(positions, first + room)
        if at > 0 and positions[at - 1] > first:
            return positions[at - 1]
    return _next(cuts, first)


def _next(cuts: Sequence[int], first: int) -> int:
    return cuts[bisect_right(cuts, first)]


def _trim(text: str, start: int, end: int) -> Span:
    body = text[start:end]
    return Span(end - len(body.lstrip()), start + len(body.rstrip())) if body.strip() else Span(end, end)
