"""The categories, and how a caller's word is matched to one of them."""

from collections.abc import Mapping

from vector_memory.tagged.merging import SIMILARITY_DECIMALS

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


def known_category(word: str) -> str | None:
    """Return the category that a normalized word names or abbreviates; None if there is none."""
    return word if word in CATEGORIES else ABBREVIATIONS.get(word)


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
