"""Memories as lines: enough to see what there is and to choose what to read."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from vector_memory.domain import Page
from vector_memory.results.budget import Packed, Packer
from vector_memory.results.sessions import FoundMemory
from vector_memory.results.shortening import MARK, value_size

LINE = 120
"""Characters of a line."""

DATE = len("2026-10-05")


def listed(packer: Packer, memories: Sequence[FoundMemory], page: Page, *, more: bool) -> tuple[list[str], Packed[Any]]:
    """Return the lines of memories that fit, with notes. `more`: others follow this page."""
    lines = [line_of(memory) for memory in memories]
    sizes = accumulate(value_size(line) + 1 for line in lines)
    fitting = [line for line, total in zip(lines, sizes, strict=True) if total <= packer.room]
    following = page.offset + max(1, len(fitting)) if more or len(fitting) < len(lines) else None
    return fitting, Packed(list(memories[: len(fitting)]), [], following)


def line_of(memory: FoundMemory) -> str:
    """Return the id, date, agent, title and beginning of a memory in one line."""
    words = " ".join(memory.content[: 4 * LINE].replace("#", " ").split())
    title = " ".join((memory.title or "").split())
    said = words if not title or words.startswith(title) else f"{title}: {words}"
    line = f"{memory.id} {memory.created_at[:DATE]} {memory.agent_id}: {said}"
    return line if len(line) <= LINE else line[: LINE - 1] + MARK
