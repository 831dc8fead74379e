"""Markdown for display: headings, and text without markup."""

import re
from collections.abc import Iterator

FENCE = re.compile(r" {0,3}(```|~~~)")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?P<text>.+?)[ \t#]*$")
DROPPED = re.compile(
    r"<!--.*?-->|^ {0,3}#{1,6} [^\n]*|^ *(```|~~~)[^\n]*|^ *> ?|\{#[^}]*\}|-{3,}|\|", re.DOTALL | re.MULTILINE
)
LINK = re.compile(r"!?\[(?P<label>[^\]]*)\](\([^)]*\)|\[[^\]]*\])")
EMPHASIS = re.compile(r"`|\*+")


def headings(text: str) -> Iterator[str]:
    """Yield the headings of a document as plain text, ignoring code fences."""
    fenced = False
    for line in text.splitlines():
        fenced ^= FENCE.match(line) is not None
        if not fenced and (heading := HEADING.match(line)):
            yield one_line(without_marks(heading["text"]))


def without_marks(text: str) -> str:
    """Return Markdown as plain text, without headings, fences, comments, link targets and emphasis."""
    return EMPHASIS.sub("", LINK.sub(r"\g<label>", DROPPED.sub(" ", text)))


def one_line(text: str) -> str:
    """Return a text on one line, without terminal control sequences."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
