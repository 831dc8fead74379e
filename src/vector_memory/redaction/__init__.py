"""Removes from a text what should not be stored."""

import re
from dataclasses import dataclass

PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)

LEFT = "[private]"
"""What stands in the place of a private part."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text, and the number of places in it that were replaced."""

    text: str
    count: int


def redact(text: str) -> Redacted:
    """Return the text without the parts between `<private>` and `</private>`, or the end."""
    return Redacted(*PRIVATE.subn(LEFT, text))
