"""Makes stored text safe to print: no escape sequences and no changes of text direction."""

import json
import re
from typing import Any

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tabs and line ends, and characters that change the text direction."""

SPECIAL = re.compile("[^\n -~]")


def printable(text: str) -> str:
    """Return a text with control characters, except line ends, written as escapes."""
    return STEERING.sub(lambda found: repr(found[0])[1:-1], text)


def as_json(value: Any, encoding: str, indent: int | None = 2) -> str:
    """Return a value as JSON, with escapes for characters that are not printable."""
    text = json.dumps(value, indent=indent, ensure_ascii="utf" not in encoding.lower())
    return SPECIAL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
