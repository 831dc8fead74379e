"""Keeps answers within what an agent's context can take: nothing is cut without saying so."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from vector_memory.errors import ValidationError
from vector_memory.results import MemoryEntry, Omitted

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E", bound=MemoryEntry)

BYTES_PER_TOKEN = 3
"""On the safe side: English prose has about 4.5 bytes of UTF-8 a token, code 3.3, Chinese 3.

Counting with a tokenizer would take longer than the search itself for long documents.
"""

BOUNDARIES = ("\n\n", "\n", " ")


class Cut(NamedTuple):
    """A stretch of a text; `end` is the offset to read on from, None at the text's end."""

    text: str
    end: int | None


class Packer:
    """Packs results into answers of at most `max_tokens` tokens."""

    def __init__(self, max_tokens: int) -> None:
        self._budget = max_tokens * BYTES_PER_TOKEN

    def cut(self, text: str, offset: int = 0) -> Cut:
        """Return as much of the text as fits, from `offset` on. Raises ValidationError for an offset outside it."""
        if not 0 <= offset <= len(text):
            raise ValidationError(f"offset must be from 0 to {len(text):,}, the length of the content.")
        return cut(text, offset, self._budget)

    def fits(self, items: Sequence[BaseModel], times: int = 1) -> bool:
        """Tell whether an answer may hold all the items, each so many times."""
        return times * sum(map(size, items)) <= self._budget

    def pack(self, items: Sequence[T], omit: Callable[[T], Omitted]) -> tuple[list[T], list[Omitted]]:
        """Split items, best first, into those that fit and what is said of the rest. The first always stays."""
        room = self._budget
        kept: list[T] = []
        for item in items:
            room -= size(item)
            if room < 0 and kept:
                break
            kept.append(item)
        return kept, [omit(item) for item in items[len(kept) :]]

    def share(self, entries: Sequence[E]) -> list[E]:
        """Give each memory the same room for its content; what short ones leave over goes to the longer ones."""
        contents = [len(entry.content.encode()) for entry in entries]
        frame = sum(map(size, entries)) - sum(contents)
        allowances = fair_shares(contents, max(self._budget - frame, 0))
        return [shortened(entry, allowance) for entry, allowance in zip(entries, allowances, strict=True)]


def size(item: BaseModel) -> int:
    """Return the bytes an item takes in an answer."""
    return len(item.model_dump_json().encode())


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
    """Return at most `allowance` bytes from `offset` on, ended at a paragraph, line or word where one is near."""
    window = text[offset : offset + allowance]
    window = window.encode()[:allowance].decode(errors="ignore")
    end = offset + len(window)
    if end == len(text):
        return Cut(window, None)
    for boundary in BOUNDARIES:
        found = window.rfind(boundary, len(window) * 4 // 5)
        if found >= 0:
            window = window[: found + len(boundary)]
            break
    # Always go on, or a reader who follows the offsets would never arrive.
    window = window or text[offset : offset + 1]
    return Cut(window, offset + len(window))
