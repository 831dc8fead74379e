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
"""The shortest token that is recognized by its beginning has so many characters."""

DOTTED_I = "\u0130"
"""The only character whose lower case is longer than itself."""


class Searched:
    """A text, in lower case, and those of its words that are long enough for a token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lowered = text.replace(DOTTED_I, "I").lower()
        self.long_words = "\n".join(word for word in text.split() if len(word) >= LONG_WORD)


WORD_STARTS, WORD_ENDS = "(?<![A-Za-z0-9])", "(?![A-Za-z0-9])"
LONG = 200
"""Nothing is looked for inside a longer value that is no secret."""


class Rule(NamedTuple):
    """A sort of secret.

    `anchors`: texts, one of which must occur; in lower case if `any_case`. `pattern`: matches at an anchor; its group
    `secret` is the secret. `min_entropy`: bits per character. `accepts`: judges the secret. `before`: how many
    characters in front of the anchor the pattern begins.
    """

    name: str
    anchors: tuple[str, ...]
    pattern: str
    flags: re.RegexFlag
    min_entropy: float = 0.0
    accepts: Callable[[str], bool] = any_value
    any_case: bool = True
    before: int = 0

    def spans(self, text: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        searched = text.lowered if self.any_case else text.text
        for anchor in self.anchors:
            if not self.any_case and anchor not in text.long_words:
                continue
            position = searched.find(anchor)
            while position >= 0:
                end = position + len(anchor)
                if found := self._match(text.text, position - self.before):
                    secret = found["secret"]
                    if entropy(secret) >= self.min_entropy and self.accepts(secret):
                        yield found.span("secret")
                    elif len(secret) > LONG:
                        end = found.end()
                position = searched.find(anchor, end)

    def _match(self, text: str, place: int) -> re.Match[str] | None:
        return compiled(self.pattern, self.flags).match(text, place) if place >= 0 else None


@cache
def compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Return a pattern, compiled when a text has one of its anchors: most texts have few."""
    return re.compile(pattern, flags)


def prefixed(name: str, prefixes: str, body: str, min_entropy: float = 3.0) -> Rule:
    """Return the rule for tokens of at least 20 characters that begin with one of the prefixes, separated by spaces."""
    starts = prefixes.split()
    either = "|".join(map(re.escape, starts))
    pattern = rf"{WORD_STARTS}(?P<secret>(?:{either}){body}){WORD_ENDS}"
    return Rule(name, tuple(starts), pattern, re.NOFLAG, min_entropy, any_case=False)


def labelled(name: str, anchors: str, pattern: str, accepts: Callable[[str], bool], min_entropy: float = 0.0) -> Rule:
    """Return the rule for values behind something that says what they are. Anchors are separated by `|`."""
    return Rule(name, tuple(anchors.split("|")), pattern, re.IGNORECASE | re.VERBOSE, min_entropy, accepts)
