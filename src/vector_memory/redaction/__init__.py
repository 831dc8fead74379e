"""Removes what must not be stored from a text: parts in `<private>` tags, and what looks like a secret.

Each is replaced by what it was, as in `[redacted: GitHub token]`. The time is linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Redacted", "redact"]

PRIVATE_TAG = re.compile(r"<(/?)private\b[^<>]{0,200}>(?!`)", re.IGNORECASE)
"""A tag alone in backticks is a mention of the tag."""

REPLACED = re.compile(r"\[redacted: [\w .-]{1,40}\]")

DOTTED_I = "\u0130"
"""The only character whose lower case is longer than itself."""


class Redacted(NamedTuple):
    """A text without secrets. `count`: the number of places that were replaced."""

    text: str
    count: int


class Place(NamedTuple):
    """A half-open range of characters to be replaced, and what is said instead."""

    start: int
    end: int
    name: str


def redact(text: str) -> Redacted:
    """Return the text with private parts and secrets replaced. Doing it again changes nothing."""
    text, private = without_private_parts(text)
    places = secret_places(text)
    return Redacted(replaced(text, places), private + len(places))


def without_private_parts(text: str) -> Redacted:
    """Replace what is in `<private>` tags, which may be nested; one that is not closed reaches to the end."""
    places, depth, start = [], 0, 0
    for tag in PRIVATE_TAG.finditer(text) if "<" in text else ():
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            places += [] if depth else [Place(start, tag.end(), "private")]
    if depth:
        places.append(Place(start, len(text), "private"))
    return Redacted(replaced(text, places), len(places))


def secret_places(text: str) -> list[Place]:
    """Return the places of secrets in order, without earlier replacements. They do not overlap.

    Where two rules apply, the first one of the table counts.
    """
    from vector_memory.redaction.rules import RULES  # compiled when a text is redacted first

    lowered = text.replace(DOTTED_I, "I").lower()
    places = []
    taken = bytearray(len(text))
    for found in REPLACED.finditer(text):
        taken[found.start() : found.end()] = b"1" * len(found[0])
    for rule in RULES:
        for anchor in rule.anchors:
            for position in positions(lowered, anchor):
                span = None if taken[position] else rule.find(text, position)
                if span is not None and taken.find(b"1", *span) < 0:
                    taken[slice(*span)] = b"1" * (span[1] - span[0])
                    places.append(Place(*span, rule.name))
    return sorted(places)


def positions(text: str, part: str) -> Iterator[int]:
    """Yield where a part occurs in a text."""
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + len(part))


def replaced(text: str, places: list[Place]) -> str:
    """Return the text with the places, which are in order, replaced by their names."""
    parts, position = [], 0
    for place in places:
        parts += [text[position : place.start], f"[redacted: {place.name}]"]
        position = place.end
    return "".join([*parts, text[position:]])
