"""Keeps answers within what an agent's context can take: nothing is cut without saying so."""

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from vector_memory.errors import ValidationError
from vector_memory.results import MemoryEntry, Omitted
from vector_memory.values import Page

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E", bound=MemoryEntry)

BYTES_PER_TOKEN = 3
"""On the safe side: English prose has about 4.5 bytes of UTF-8 a token, code 3.3, Chinese 3.

Counting with a tokenizer would take longer than the search itself for long documents.
"""

LEAST_CONTENT = 200
"""Bytes of content that a memory is shown with at least, if it has so many; a memory without them is left out."""

BOUNDARIES = ("\n\n", "\n", " ")


class Cut(NamedTuple):
    """A stretch of a text; `end` is the offset to read on from, None at the text's end."""

    text: str
    end: int | None


class Packer:
    """Packs results into answers of at most `max_tokens` tokens."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._budget = max_tokens * BYTES_PER_TOKEN

    def within(self, max_tokens: int | None) -> "Packer":
        """Return a packer for an answer that a caller wants no longer than that."""
        return self if max_tokens is None else Packer(min(max_tokens, self._max_tokens))

    def cut(self, text: str, offset: int = 0, *, times: int = 1) -> Cut:
        """Return as much of the text as fits into an answer that holds it so many times, from `offset` on.

        Raises ValidationError for an offset outside the text.
        """
        if not 0 <= offset <= len(text):
            raise ValidationError(f"offset must be from 0 to {len(text):,}, the length of the content.")
        return cut(text, offset, self._budget // times)

    def fits(self, items: Sequence[BaseModel], *, times: int = 1) -> bool:
        """Tell whether an answer may hold all the items, each so many times."""
        return times * sum(map(size, items)) <= self._budget

    def fitting(self, items: Sequence[T]) -> list[T]:
        """Return the items, best first, that fit together. The first always does."""
        totals = accumulate(map(size, items))
        return [item for item, total in zip(items, totals, strict=True) if total <= self._budget] or list(items[:1])

    def share(self, entries: Sequence[E]) -> list[E]:
        """Return the memories, the first ones first, that fit with at least a word of their content.

        They get the same room each for it; what short contents leave over goes to the longer ones.
        """
        kept = entries[: max(1, self._frames_that_fit(entries))]
        contents = [json_size(entry.content) for entry in kept]
        room = self._budget - (sum(map(size, kept)) - sum(contents))
        shares = fair_shares(contents, max(room, 0))
        return [shortened(entry, allowance) for entry, allowance in zip(kept, shares, strict=True)]

    def _frames_that_fit(self, entries: Sequence[E]) -> int:
        frames = accumulate(size(entry) - max(0, json_size(entry.content) - LEAST_CONTENT) for entry in entries)
        return sum(total <= self._budget for total in frames)


def size(item: BaseModel) -> int:
    """Return the bytes an item takes in an answer."""
    return len(item.model_dump_json().encode())


def json_size(text: str) -> int:
    """Return the bytes a text takes inside a JSON string, where a line end takes two and a control character six."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def fair_shares(wanted: Sequence[int], available: int) -> list[int]:
    """Divide `available` among wants by max-min fairness: no one gets more than wanted, nor less than an equal part."""
    shares = [0] * len(wanted)
    waiting = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(waiting):
        shares[index] = min(wanted[index], available // (len(wanted) - position))
        available -= shares[index]
    return shares


def shortened(entry: E, allowance: int) -> E:
    """Return the memory with at most `allowance` bytes of content, and where to read on."""
    text, end = cut(entry.content, 0, allowance)
    return entry if end is None else entry.model_copy(update={"content": text, "content_end": end})


def cut(text: str, offset: int, allowance: int) -> Cut:
    """Return at most `allowance` bytes of JSON from `offset` on, ended at a paragraph, line or word if one is near."""
    window = text[offset : offset + allowance]
    fits = len(window)
    if json_size(window) > allowance:
        fits = bisect_right(range(fits), allowance, key=lambda length: json_size(window[:length])) - 1
    end = offset + fits
    if end == len(text):
        return Cut(window[:fits], None)
    # Always go on, or a reader who follows the offsets would never arrive.
    window = at_boundary(window[:fits]) or text[offset : offset + 1]
    return Cut(window, offset + len(window))


def at_boundary(text: str) -> str:
    """Return the text up to the last paragraph, else line, else word that ends in its last fifth."""
    for boundary in BOUNDARIES:
        found = text.rfind(boundary, len(text) * 4 // 5)
        if found >= 0:
            return text[: found + len(boundary)]
    return text


def omissions(items: Sequence[T], kept: Sequence[T], describe: Callable[[T], Omitted]) -> list[Omitted]:
    """Say what was left out of an answer that begins like `items`."""
    return [describe(item) for item in items[len(kept) :]]


class Packed(NamedTuple, Generic[T]):
    """What an answer holds of a page of results, what did not fit, and the offset to ask on with, if there is more."""

    results: list[T]
    omitted: list[Omitted]
    next_offset: int | None


def packed(
    found: Sequence[T], results: list[T], page: Page, describe: Callable[[T], Omitted], *, more: bool
) -> Packed[T]:
    """Say what was left out of an answer that begins like `found`; `more`: there are others after that page."""
    omitted = omissions(found, results, describe)
    return Packed(results, omitted, page.offset + len(results) if omitted or more else None)


def omitted_memory(entry: MemoryEntry) -> Omitted:
    """Say that a memory was left out."""
    return Omitted(id=entry.id, characters=entry.content_length)
