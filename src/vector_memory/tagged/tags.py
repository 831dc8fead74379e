"""Validates and normalizes tags, and computes their weights."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from vector_memory.domain import ANY, MemoryKind, Scope
from vector_memory.domain.validation import MAX_TAG

ALL_TAGGED = Scope(kind=MemoryKind.TAGGED)
STORED_TAGGED = Scope(kind=MemoryKind.TAGGED, as_of=ANY)

MAX_TAGS_PER_NOTE = 10

VALID = re.compile(r"[a-z0-9\-_ .:]+")
PREFIXES = ("type", "domain", "strict", "cognitive", "batch", "module", "vendor", "priority", "scope", "layer")
"""The prefixes of structured tags, `prefix:value`."""

REFUSED_SHOWN = 40
"""Maximum number of characters shown of a refused tag."""


class RefusedTag(NamedTuple):
    """An invalid tag as it was sent, up to 40 characters, and the reason."""

    tag: str
    reason: str


def normalized_tag(tag: str) -> str:
    """Return a tag in lower case and without redundant spaces."""
    prefix, colon, value = " ".join(tag.lower().split()).partition(":")
    return f"{prefix.strip()}:{value.strip()}" if colon else prefix


def problem_with(tag: str) -> str | None:
    """Return why a normalized tag is invalid; None if it is valid."""
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


def accept_tags(tags: Iterable[str]) -> tuple[list[str], list[RefusedTag]]:
    """Return the valid tags, normalized, in order and without duplicates, and the invalid ones."""
    accepted: dict[str, None] = {}
    refused = []
    for tag in tags:
        normalized = normalized_tag(tag)
        reason = problem_with(normalized)
        if reason is None:
            accepted[normalized] = None
        else:
            refused.append(RefusedTag(tag[:REFUSED_SHOWN], reason))
    return list(accepted), refused


def weight(frequency: int) -> float:
    """Return the weight of a tag that `frequency` memories have: `1 / ln(1 + frequency)`, rounded to 4 decimals.

    This is an inverse document frequency; the rarest tags have 1.4427.
    """
    return round(1 / math.log(1 + frequency), 4)
