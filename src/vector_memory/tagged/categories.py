"""The categories, and which of them a caller's word means."""

from collections.abc import Mapping

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
"""Names and descriptions of each category, as specified: a caller's word means the category with the nearest one."""

CATEGORIES = tuple(PHRASES)

SHORT = 5
"""A word of fewer letters is only looked up; longer ones are compared by their vectors."""

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

LEAST_SIMILARITY = 0.50
MARGIN = 0.10
"""A category has to be so much nearer than `other`."""

DECIMALS = 4


def cleaned(word: str) -> str:
    """Return a caller's word as it is looked up."""
    return "-".join(word.lower().replace("_", " ").replace("-", " ").split())


def known(word: str) -> str | None:
    """Return the category that a cleaned word names or, if it is short, abbreviates."""
    return word if word in CATEGORIES else ABBREVIATIONS.get(word)


def nearest(cosines: Mapping[str, float]) -> str | None:
    """Return the category that a word means, given its cosine with each phrase; None if it means none of them.

    A category is as near as the nearest of its phrases; of equals the first counts.
    """
    similarities = {
        category: round(max(cosines[phrase] for phrase in phrases), DECIMALS) for category, phrases in PHRASES.items()
    }
    other = similarities.pop(OTHER)
    best = max(similarities, key=lambda category: similarities[category])
    near_enough = similarities[best] >= LEAST_SIMILARITY and round(similarities[best] - other, DECIMALS) >= MARGIN
    return best if near_enough else None
