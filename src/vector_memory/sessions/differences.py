"""Finds where two texts on one subject say different things: other numbers, versions, dates or paths, and negations."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from vector_memory.storage.terms import STOP_WORDS

FACT = re.compile(
    r"(?P<path>(?:https?://|[~.]{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d\b)"
    r"|(?P<time>\b\d{1,2}:\d\d\b)"
    r"|(?P<version>\bv?\d+(?:\.\d+){2,}\b|\bv\d+(?:\.\d+)*\b)"
    r"|(?P<number>(?<![\w.-])[$€£]?\d[\d,]*(?:\.\d+)?(?:\s?(?:%|(?:[µm]?s|min|h|[kKMGT]i?B|[kMG]?Hz|px)\b))?)"
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
WORD = re.compile(r"[^\W\d_]{2,}")
NEGATION = re.compile(r"\b(?:not|no|never|without|cannot|stopped|disabled|removed|\w+n[\u2019']t)\b", re.IGNORECASE)

ALIKE = 0.5
"""The share of their words that two sentences have in common if one is the negation of the other."""
MOST = 3
"""Maximum number of differences named."""
COMPARED = 200
"""Maximum number of facts, and of sentences, of a text that are compared."""
SHOWN = 80
"""Maximum number of characters of a sentence or a value shown."""


class Fact(NamedTuple):
    """A number, version, date, time or path, and the words of its sentence."""

    kind: str
    value: str
    words: frozenset[str]


def differing(older: str, newer: str) -> list[str]:
    """Return up to MOST lines that say what one text has in place of what another one has, such as `8080 → 9090`."""
    earlier, later = (list(islice(facts_of(text), COMPARED)) for text in (older, newer))
    kept = {fact.value for fact in earlier} & {fact.value for fact in later}
    changed = [
        (len(one.words & other.words), f"{clipped_to(one.value)} → {clipped_to(other.value)}")
        for one, other in product(earlier, later)
        if one.kind == other.kind and not {one.value, other.value} & kept and one.words & other.words
    ]
    best = [line for _, line in sorted(changed, key=lambda each: -each[0])]
    return list(dict.fromkeys([*one_of_each(best), *negations(older, newer)]))[:MOST]


def one_of_each(lines: Sequence[str]) -> list[str]:
    """Return the lines whose first value no line before it has, nor their second value."""
    known, found = set[str](), []
    for line in lines:
        values = set(line.split(" → "))
        if not values & known:
            found.append(line)
        known |= values
    return found


def facts_of(text: str) -> Iterator[Fact]:
    """Yield the facts of a text, in order."""
    for sentence in SENTENCE.split(text):
        words = words_in(sentence)
        for found in FACT.finditer(sentence):
            yield Fact(str(found.lastgroup), found[0].rstrip(".,"), words)


def negations(older: str, newer: str) -> Iterator[str]:
    """Yield the newer of two sentences with the same words, of which one is negated."""
    for one, other in product(*(SENTENCE.split(text)[:COMPARED] for text in (older, newer))):
        if bool(NEGATION.search(one)) != bool(NEGATION.search(other)):
            first, second = words_in(one), words_in(other)
            if first and second and len(first & second) >= ALIKE * len(first | second):
                yield clipped_to(other.strip())


def words_in(sentence: str) -> frozenset[str]:
    """Return the words of a sentence that have a meaning of their own, but for negations."""
    without = NEGATION.sub(" ", sentence).lower()
    return frozenset(WORD.findall(without)) - STOP_WORDS


def clipped_to(text: str) -> str:
    """Return a text as far as it is shown."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
