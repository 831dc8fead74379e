"""Splits text into passages that an embedding model reads whole."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from vector_memory.domain import Chunk, Span

BEGINNING = 0.33
MIDDLE = 0.67


def header(title: str | None, memory_type: str, chunk: Chunk, sibling_count: int) -> str:
    """Return lines with a chunk's document, section, position and memory type, without a final line end.

    `sibling_count`: the document's number of chunks, including this one. Unknown values are omitted.
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

# A passage of so many tokens ends with its paragraph. A vector is the mean of what a passage says: a paragraph between
# others on another subject is hardly found in other words. Shorter passages would need more vectors.
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
