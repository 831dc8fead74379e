"""Markdown for display: text without markup."""

import re

DROPPED = re.compile(r"<!--.*?-->|^ {0,3}#{1,6} [^\n]*|^ *(```|~~~)[^\n]*|^ *> ?|-{3,}|\|", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[(?P<label>[^\]]*)\](\([^)]*\)|\[[^\]]*\])")
EMPHASIS = re.compile(r"`|\*+")


def without_marks(text: str) -> str:
    """Return Markdown as plain text, without headings, fences, comments, link targets and emphasis."""
    return EMPHASIS.sub("", LINK.sub(r"\g<label>", DROPPED.sub(" ", text)))


def one_line(text: str) -> str:
    """Return a text on one line, without terminal control sequences."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
