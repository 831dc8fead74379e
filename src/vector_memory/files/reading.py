"""Reads the lines of a file that fit into an answer."""

from typing import NamedTuple

from vector_memory.errors import ValidationError
from vector_memory.results.budget import Packer


class Excerpt(NamedTuple):
    """Lines of a text, counted from 1. `next_line`: where to continue if not all requested lines fit.

    `cut`: not even the first line fits; the rest of it is left out.
    """

    content: str
    total_lines: int
    start_line: int
    end_line: int
    next_line: int | None
    cut: bool


def fitting_lines(text: str, start_line: int, lines: int, packer: Packer) -> Excerpt:
    """Return up to `lines` lines that fit, from `start_line` on. Raises ValidationError if there is no such line."""
    every = split_lines(text)
    if start_line > max(1, len(every)):
        raise ValidationError(f"startLine must be between 1 and {len(every):,}, the number of lines.")
    wanted = every[start_line - 1 : start_line - 1 + lines]
    fitting = packer.cut("".join(wanted))
    if fitting.end is None:
        return Excerpt(fitting.text, len(every), start_line, start_line + len(wanted) - 1, None, cut=False)
    whole = fitting.text.count("\n")
    kept = wanted[:whole] or [fitting.text]
    following = start_line + len(kept)
    after = following if len(kept) < len(wanted) else None
    return Excerpt("".join(kept), len(every), start_line, following - 1, after, cut=whole == 0)


def split_lines(text: str) -> list[str]:
    """Return the lines with their line feeds. Only a line feed ends a line, as in editors and in the index."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
