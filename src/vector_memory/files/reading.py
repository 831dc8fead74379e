"""Reads the lines of a file that fit into an answer."""

from typing import NamedTuple

from vector_memory.errors import ValidationError
from vector_memory.results.budget import ResponseBudget


class Wanted(NamedTuple):
    """Lines that a caller asks for, counted from 1, without the first `offset` characters of the first one."""

    start_line: int
    lines: int
    offset: int = 0


class Excerpt(NamedTuple):
    """Lines of a text, counted from 1. `next_line`: where to continue if not all requested lines fit.

    `next_offset`: how much of that line is in `content`, if a line alone does not fit.
    """

    content: str
    total_lines: int
    start_line: int
    end_line: int
    next_line: int | None = None
    next_offset: int | None = None


def fitting_lines(text: str, wanted: Wanted, budget: ResponseBudget) -> Excerpt:
    """Return the wanted lines as far as they fit. Raises ValidationError if there is no such line or offset."""
    every = split_lines(text)
    first = wanted.start_line
    if first > max(1, len(every)):
        raise ValidationError(f"startLine must be between 1 and {len(every):,}, the number of lines.")
    lines = every[first - 1 : first - 1 + wanted.lines]
    if wanted.offset > len(lines[0] if lines else ""):
        raise ValidationError(f"offset must be at most {len(lines[0] if lines else ''):,}, the length of the line.")
    fitting = budget.cut("".join(lines), wanted.offset)
    if fitting.end is None:
        return Excerpt(fitting.text, len(every), first, first + len(lines) - 1)
    whole = fitting.text.count("\n")
    if not whole:
        return Excerpt(fitting.text, len(every), first, first, next_line=first, next_offset=fitting.end)
    kept = "".join(lines[:whole])[wanted.offset :]
    after = first + whole
    return Excerpt(kept, len(every), first, after - 1, next_line=after if whole < len(lines) else None)


def split_lines(text: str) -> list[str]:
    """Return the lines with their line feeds. Only a line feed ends a line, as in editors and in the index."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
