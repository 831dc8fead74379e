"""Validates and normalizes tags, and computes their weights."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vector_memory.domain import ANY, MemoryKind, Scope
from vector_memory.domain.validation import MAX_TAG

ALL_TAGGED = Scope(kind=MemoryKind.TAGGED)
STORED_TAGGED = Scope(kind=MemoryKind.TAGGED, as_of=ANY)

MAX_TAGS_PER_NOTE = 10

SIMILARITY_DECIMALS = 4
"""Similarities are rounded before comparison: machines differ in the seventh decimal, and ties must stay ties."""

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


# The categories, and how a caller's word is matched to one of them.

OTHER = "other"

PHRASES: dict[str, tuple[str, ...]] = {
    "code-solution": ("code solution", "working implementations", "patterns"),
    "bug-fix": ("bug fix", "bug fixes with root causes"),
    "architecture": ("architecture", "design decisions", "trade-offs"),
    "learning": ("learning", "insights", "discoveries"),
    "tool-usage": ("tool usage", "tool configs", "commands"),
    "debugging": ("debugging", "troubleshooting steps"),
    "performance": ("performance", "optimizations", "benchmarks"),
    "security": ("security", "vulnerabilities", "security fixes"),
    OTHER: ("other", "everything else"),
}
"""Phrases that describe each category, from the specification. A word belongs to the category of the nearest phrase."""

CATEGORIES = tuple(PHRASES)

MIN_COMPARED = 5
"""Shorter words are only looked up; words of this many letters or more are also compared by their vectors."""

ABBREVIATIONS = {
    "auth": "security",
    "cve": "security",
    "sec": "security",
    "xss": "security",
    "bug": "bug-fix",
    "bugs": "bug-fix",
    "fix": "bug-fix",
    "perf": "performance",
    "fast": "performance",
    "slow": "performance",
    "arch": "architecture",
    "adr": "architecture",
    "code": "code-solution",
    "impl": "code-solution",
    "tool": "tool-usage",
    "cli": "tool-usage",
    "cmd": "tool-usage",
    "til": "learning",
    "note": "learning",
    "log": "debugging",
    "logs": "debugging",
    "misc": OTHER,
}

MIN_SIMILARITY = 0.50
MIN_MARGIN = 0.10
"""Minimum by which a category's similarity must exceed that of `other`."""


def normalized(word: str) -> str:
    """Return a caller's word in the form in which it is looked up."""
    return "-".join(word.lower().replace("_", " ").replace("-", " ").split())


def nearest_category(cosines: Mapping[str, float]) -> str | None:
    """Return the category that a word means, given its cosine with each phrase; None if none is near enough.

    The similarity of a category is that of its nearest phrase. Ties go to the first category.
    """
    similarities = {
        category: round(max(cosines[phrase] for phrase in phrases), SIMILARITY_DECIMALS)
        for category, phrases in PHRASES.items()
    }
    other = similarities.pop(OTHER)
    best = max(similarities, key=lambda category: similarities[category])
    near_enough = (
        similarities[best] >= MIN_SIMILARITY and round(similarities[best] - other, SIMILARITY_DECIMALS) >= MIN_MARGIN
    )
    return best if near_enough else None
