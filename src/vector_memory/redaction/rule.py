"""What a rule is: a sort of secret, and how it is found.

A rule's pattern is only tried where one of its anchors stands, and every part of it has a maximum length or cannot
backtrack: this keeps the time linear. Patterns are matched at the anchor, so what stands before it is a lookbehind.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from vector_memory.redaction.judging import any_value, entropy

LONG_WORD = 20
"""Minimum length of a token that is recognized by its beginning."""

DOTTED_I = "\u0130"
"""The only character whose lower case is longer than itself."""


class Searched:
    """A text, in lower case, and where it has anchors. Words that are long enough for a token are searched first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lowered = text.replace(DOTTED_I, "I").lower()
        words = {word for word in text.split() if len(word) >= LONG_WORD}
        self._long_words = "\n".join(words)
        self._lowered_words = self._long_words.lower()
        self._places: dict[tuple[str, bool, bool], list[int]] = {}

    def places_of(self, anchor: str, *, any_case: bool, in_word: bool) -> list[int]:
        """Return where an anchor of rules stands; nowhere unless a long word has it, if it must be `in_word`."""
        key = anchor, any_case, in_word
        if key not in self._places:
            words = self._lowered_words if any_case else self._long_words
            self._places[key] = [] if in_word and anchor not in words else list(self._found(anchor, any_case=any_case))
        return self._places[key]

    def _found(self, anchor: str, *, any_case: bool) -> Iterator[int]:
        searched = self.lowered if any_case else self.text
        place = searched.find(anchor)
        while place >= 0:
            yield place
            place = searched.find(anchor, place + len(anchor))


compiled = cache(re.compile)
"""Return a pattern, compiled when a text has one of its anchors: most texts have few."""

WORD_STARTS, WORD_ENDS = "(?<![A-Za-z0-9])", "(?![A-Za-z0-9])"
LONG = 200
"""Nothing is looked for inside a longer value that is no secret."""


class Rule(NamedTuple):
    """A sort of secret.

    `anchors`: texts, one of which must occur; in lower case if `any_case`. `pattern`: matches at an anchor; its group
    `secret` is the secret. `min_entropy`: bits per character. `accepts`: judges the secret. `before`: how many
    characters in front of the anchor the pattern begins. `in_word`: the secret is a long word, or in one.
    """

    name: str
    anchors: tuple[str, ...]
    pattern: str
    flags: re.RegexFlag
    min_entropy: float = 0.0
    accepts: Callable[[str], bool] = any_value
    any_case: bool = True
    before: int = 0
    in_word: bool = False

    def spans(self, text: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        for anchor in self.anchors:
            end = 0
            for place in text.places_of(anchor, any_case=self.any_case, in_word=self.in_word):
                if place < max(end, self.before):
                    continue
                if found := compiled(self.pattern, self.flags).match(text.text, place - self.before):
                    secret = found["secret"]
                    if entropy(secret) >= self.min_entropy and self.accepts(secret):
                        yield found.span("secret")
                    elif len(secret) > LONG:
                        end = found.end()


def prefixed(name: str, prefixes: str, body: str, min_entropy: float = 3.0) -> Rule:
    """Return the rule for tokens of at least 20 characters that begin with one of the prefixes, separated by spaces."""
    starts = prefixes.split()
    either = "|".join(map(re.escape, starts))
    pattern = rf"{WORD_STARTS}(?P<secret>(?:{either}){body}){WORD_ENDS}"
    return Rule(name, tuple(starts), pattern, re.NOFLAG, min_entropy, any_case=False, in_word=True)


def labelled(name: str, anchors: str, pattern: str, accepts: Callable[[str], bool], min_entropy: float = 0.0) -> Rule:
    """Return the rule for values behind something that says what they are. Anchors are separated by `|`."""
    return Rule(name, tuple(anchors.split("|")), pattern, re.IGNORECASE | re.VERBOSE, min_entropy, accepts)
