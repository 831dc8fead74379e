"""Reads answers that come in pages."""

from collections.abc import Callable, Iterator
from typing import Any


def pages(ask: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the pages of an answer, from the first to the last; `ask` returns the one at an offset."""
    offset: int | None = 0
    while offset is not None:
        page = ask(offset)
        yield page
        offset = page.next_offset
