"""What may be a tag, how it is written, and how much it says."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_TAGS = 10
MAX_TAG = 100

VALID = re.compile(r"[a-z0-9\-_ .:]+")
PREFIXES = ("type", "domain", "strict", "cognitive", "batch", "module", "vendor", "priority", "scope", "layer")
"""What a structured tag, `prefix:value`, may begin with."""

SHOWN = 40
"""So much of a tag that was refused is shown again."""


class Refused(NamedTuple):
    """A tag that cannot be one, as it was sent but for its length, and why."""

    tag: str
    reason: str


def cleaned(tag: str) -> str:
    """Return a tag in the one way in which it is written: in lower case, without needless spaces."""
    prefix, colon, value = " ".join(tag.lower().split()).partition(":")
    return f"{prefix.strip()}:{value.strip()}" if colon else prefix


def problem_with(tag: str) -> str | None:
    """Say why a cleaned text cannot be a tag; None if it can."""
    if not tag:
        return "it is empty"
    if len(tag) > MAX_TAG:
        return f"it is longer than {MAX_TAG} characters"
    if not VALID.fullmatch(tag):
        return "a tag contains only a-z, 0-9, spaces and - _ . :"
    prefix, colon, value = tag.partition(":")
    if colon and (prefix not in PREFIXES or not value):
        return f"a colon is allowed only after {', '.join(PREFIXES)}, and needs a value after it"
    return None


def sifted(tags: Iterable[str]) -> tuple[list[str], list[Refused]]:
    """Return the tags that can be tags, cleaned, each once and in order, and those that cannot."""
    accepted: dict[str, None] = {}
    refused = []
    for tag in tags:
        written = cleaned(tag)
        reason = problem_with(written)
        if reason is None:
            accepted[written] = None
        else:
            refused.append(Refused(tag[:SHOWN], reason))
    return list(accepted), refused


def weight(frequency: int) -> float:
    """Return how much a tag says that stands on so many memories: `1 / ln(1 + frequency)` to four places.

    The inverse document frequency; 1.4427 for the rarest.
    """
    return round(1 / math.log(1 + frequency), 4)
