"""Cuts a text around what was asked: whole sentences and lines, those with the rarest words of the question first."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

from vector_memory.storage.terms import terms

CUT = "…"
"""Stands where a text is cut: at its ends, and between its parts."""

GAP = f"\n{CUT}\n"

LEAST = 80
"""A shorter rest of a text is not left out."""

PIECE = re.compile(
    r"[^\n]{0,300}?(?:\n\s*|(?<=[.!?])\s+|\Z)"  # a line or a sentence, with the white space after it
    r"|[^\n]{1,300}\s|[^\n]{1,300}"  # a part of a longer one
)

BESIDE = 0.5
"""What share of the weight of a piece its neighbours get: they are its context."""


class Excerpt(NamedTuple):
    """Parts of a text. `start`, `end`: the offsets of the first and after the last of them."""

    text: str
    start: int
    end: int


def excerpt(text: str, wanted: Collection[str], length: int) -> Excerpt:
    """Return the parts of a text that have most of the wanted terms, about `length` characters, in their order."""
    if len(text) <= length + LEAST:
        return Excerpt(text, 0, len(text))
    pieces = [found for found in PIECE.finditer(text) if found[0]]
    chosen = []
    for index in by_weight([set(wanted).intersection(terms(piece[0])) for piece in pieces]):
        if len(pieces[index][0]) <= length:
            chosen.append(pieces[index])
            length -= len(pieces[index][0])
    chosen.sort(key=lambda piece: piece.start())
    parts = [chosen[0][0]]
    for before, piece in pairwise(chosen):
        parts[-1:] = [parts[-1] + piece[0]] if piece.start() == before.end() else [parts[-1].rstrip(), piece[0]]
    return Excerpt(GAP.join(parts).rstrip(), chosen[0].start(), chosen[-1].end())


def by_weight(found: Sequence[Collection[str]]) -> list[int]:
    """Return the positions of pieces in the order in which they get room, given the wanted terms in each of them."""
    count = Counter(term for held in found for term in held)
    own = [sum(log(1 + len(found) / count[term]) for term in held) for held in found]
    sums = [one + BESIDE * (before + after) for before, one, after in zip([0, *own], own, [*own[1:], 0], strict=False)]
    return sorted(range(len(found)), key=lambda index: -sums[index])
