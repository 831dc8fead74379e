"""Cuts a text to the lines and sentences with most of the question's rare words."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import accumulate
from math import log

from vector_memory.domain import Span
from vector_memory.storage.terms import terms

SPARED = 80
"""A text is not cut to save fewer characters than this."""

PIECE = re.compile(
    r"[^\n]{0,300}?(?:\n\s*|(?<=[.!?])\s+|\Z)"  # a line or a sentence, with the white space after it
    r"|[^\n]{1,300}\s|[^\n]{1,300}"  # a part of a longer one
)


def excerpt(text: str, wanted: Collection[str], length: int) -> Span:
    """Return the part of a text, of at most about `length` characters, that has most of the wanted terms.

    A term counts more the fewer lines and sentences have it. Of parts with the same terms it is the middle one, which
    has text before and after them; without any, the beginning.
    """
    pieces = [found for found in PIECE.finditer(text) if found[0]] if len(text) > length + SPARED else []
    if not pieces:
        return Span(0, len(text))
    windows = windows_of([len(piece[0]) for piece in pieces], length)
    weights = weights_of([set(wanted).intersection(terms(piece[0])) for piece in pieces], windows)
    best = [window for window, weight in zip(windows, weights, strict=True) if weight == max(weights)]
    start, end = best[len(best) // 2 if max(weights) else 0]
    while end - 1 > start and pieces[end - 1][0].startswith("#"):  # a heading says nothing without what is below it
        end -= 1
    return Span(pieces[start].start(), pieces[end - 1].end())


def windows_of(lengths: Sequence[int], room: int) -> list[Span]:
    """Return for each piece the end of the run of pieces from there on that fits; a run has at least one piece."""
    ends = [0, *accumulate(lengths)]
    windows = []
    for start in range(len(lengths)):
        end = start + 1
        while end < len(lengths) and ends[end + 1] - ends[start] <= room:
            end += 1
        windows.append(Span(start, end))
        if end == len(lengths):
            break
    return windows


def weights_of(found: Sequence[Collection[str]], windows: Sequence[Span]) -> list[float]:
    """Return the weight of the terms that each run of pieces has, given those of each piece."""
    count = Counter(term for held in found for term in held)
    weight = {term: log(1 + len(found) / pieces) for term, pieces in count.items()}
    held = ({term for each in found[start:end] for term in each} for start, end in windows)
    return [sum(weight[term] for term in sorted(each)) for each in held]
