"""Which of two tags mean the same: guards that forbid it, and a similarity that has to be high enough."""

import re
from collections.abc import Callable, Sequence

from vector_memory.tagged.numbers import numbers, versions

MERGE = 0.90
MERGE_OF_SAME_VERSION = 0.85
SUBSTRING_BOOST = 0.03
LEAST_SUBSTRING = 4
DECIMALS = 4
"""Similarities are rounded before they are compared: machines differ in the seventh place, and ties have to be ties."""

STOP_WORDS = frozenset(
    """
    api ui db test auth infra ci cd app lib sdk cli gui web sql orm log cfg env dev prod stg
    """.split()  # noqa: SIM905 - twenty lines shorter
)
"""Too general to say what a longer tag is about."""

LEAST_COSINE = 0.8
"""Tags that are less similar cannot merge, whatever lowers the threshold: looking at them is spared."""

SEPARATORS = re.compile(r"[\s\-_]+")
NO_LETTERS = " -_.:"


def spoken(tag: str) -> str:
    """Return a tag as it is compared: `rate-limiting`, `rate_limiting` and `rate limiting` read alike."""
    return SEPARATORS.sub(" ", tag).strip()


def letters(tag: str) -> str:
    """Return a tag without what separates its words: tags with the same letters, `front end`, `frontend`, are one."""
    for separator in NO_LETTERS:
        tag = tag.replace(separator, "")
    return tag


def same_version(tag: str, other: str) -> bool:
    """Guard `version`: tags of different versions never merge."""
    mine, theirs = versions(tag), versions(other)
    return mine == theirs or not mine or not theirs


def same_numbers(tag: str, other: str) -> bool:
    """Guard `number`: tags with different numbers do not merge, nor one with a number and one without."""
    return numbers(tag) == numbers(other)


def same_facet(tag: str, other: str) -> bool:
    """Guard `colon`: two structured tags are two facets, whether they share the prefix or not."""
    return not (":" in tag and ":" in other)


def same_structure(tag: str, other: str) -> bool:
    """Guard `prefix`: a structured tag keeps its structure, and never merges with a plain one."""
    return (":" in tag) == (":" in other)


GUARDS: dict[str, Callable[[str, str], bool]] = {
    "version": same_version,
    "number": same_numbers,
    "colon": same_facet,
    "prefix": same_structure,
}
"""Every one of them has to agree before two different tags may merge."""


def guarded(tag: str, other: str) -> bool:
    """Tell whether a guard forbids two different tags to merge."""
    return not all(agrees(tag, other) for agrees in GUARDS.values())


def is_boosted(tag: str, other: str) -> bool:
    """Tell whether one tag stands within the other, and is neither too short nor too general to count."""
    shorter, longer = sorted((spoken(tag), spoken(other)), key=len)
    return shorter in longer and len(shorter) >= LEAST_SUBSTRING and shorter not in STOP_WORDS


def score(tag: str, other: str, cosine: float) -> float:
    """Return how similar two tags are, boosted if one stands within the other; what the threshold is compared with."""
    if letters(tag) == letters(other):
        return 1 + SUBSTRING_BOOST
    return round(cosine + (SUBSTRING_BOOST if is_boosted(tag, other) else 0.0), DECIMALS)


def threshold(tag: str, other: str) -> float:
    """Return how similar two tags have to be: less where both name the same version."""
    mine = versions(tag)
    return MERGE_OF_SAME_VERSION if mine and mine == versions(other) else MERGE


def merges(tag: str, other: str, cosine: float) -> bool:
    """Tell whether two tags are one, given the cosine of the vectors of what they say."""
    return not guarded(tag, other) and score(tag, other, cosine) >= threshold(tag, other)


def best_match(tag: str, known: Sequence[str], cosines: Sequence[float]) -> str | None:
    """Return the known tag that `tag` is another form of: the most similar one, of equals the first; None: it is new.

    `known`: the oldest first. `cosines`: of each with `tag`; 0 where there is no vector.
    """
    spelled = letters(tag)
    near = [
        (other, score(tag, other, cosine))
        for other, cosine in zip(known, cosines, strict=True)
        if (cosine > LEAST_COSINE or letters(other) == spelled) and merges(tag, other, cosine)
    ]
    return max(near, key=lambda item: item[1])[0] if near else None
