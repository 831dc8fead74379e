"""Markdown as the demo shows it: headings, and text without its marks."""

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
    """Yield the headings of a document as plain text; lines in code fences are none."""
    fenced = False
    for line in text.splitlines():
        fenced ^= FENCE.match(line) is not None
        if not fenced and (heading := HEADING.match(line)):
            yield one_line(without_marks(heading["text"]))


def without_marks(text: str) -> str:
    """Return the words of a piece of Markdown: without headings, fences, comments, links' targets and emphasis."""
    return EMPHASIS.sub("", LINK.sub(r"\g<label>", DROPPED.sub(" ", text)))


def one_line(text: str) -> str:
    """Return a text as one line that cannot steer a terminal."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
