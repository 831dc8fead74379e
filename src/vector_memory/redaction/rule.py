"""What a rule is: a sort of secret, and how it is found.

A rule's pattern is only tried where one of its anchors stands, and every part of it has a maximum length or cannot
backtrack: this keeps the time linear. Patterns are matched at the anchor, so what stands before it is a lookbehind.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from vector_memory.redaction.judging import any_value, entropy, is_key, is_spoken

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


class Leading(NamedTuple):
    """A sort of secret that stands before its anchor. `pattern`: ends at the anchor."""

    name: str
    anchors: tuple[str, ...]
    pattern: str
    accepts: Callable[[str], bool]

    def spans(self, text: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        for anchor in self.anchors:
            for place in text.places_of(anchor, any_case=True, in_word=False):
                found = compiled(self.pattern, re.IGNORECASE | re.VERBOSE).search(
                    text.text, max(0, place - LONG), place
                )
                if found and self.accepts(found["secret"]):
                    yield found.span("secret")


def prefixed(name: str, prefixes: str, body: str, min_entropy: float = 3.0) -> Rule:
    """Return the rule for tokens of at least 20 characters that begin with one of the prefixes, separated by spaces."""
    starts = prefixes.split()
    either = "|".join(map(re.escape, starts))
    pattern = rf"{WORD_STARTS}(?P<secret>(?:{either}){body}){WORD_ENDS}"
    return Rule(name, tuple(starts), pattern, re.NOFLAG, min_entropy, any_case=False, in_word=True)


def labelled(name: str, anchors: str, pattern: str, accepts: Callable[[str], bool], min_entropy: float = 0.0) -> Rule:
    """Return the rule for values behind something that says what they are. Anchors are separated by `|`."""
    return Rule(name, tuple(anchors.split("|")), pattern, re.IGNORECASE | re.VERBOSE, min_entropy, accepts)


HEAD = re.compile(
    r"^(?P<names>[^|\n]{0,1000}+\|[^\n]{0,1000}+)\n[ \t]{0,9}+\|?[ \t]{0,9}+:?-[ \t:|-]{1,1000}+\n", re.MULTILINE
)
RULER = re.compile(r"\n[ \t]{0,9}+\|?[ \t]{0,9}+:?-[ \t:|-]{1,1000}+\n")
"""The line below a head: a text without one is not searched for heads, which takes longer."""
PAIR = re.compile(
    r"^[ \t]{0,9}\|(?P<name>[^|\n]{3,80})\|[ \t`*]{0,40}+(?P<secret>[^\s|`*]{6,200}+)[ \t`*]{0,40}+\|", re.MULTILINE
)
"""A row whose first cell is a name and whose second one is a value of one word."""

ROW = re.compile(r"[^\n|]*+\|[^\n]*+\n?")
CELL = re.compile(r"[^|\n]*+")
AROUND = " \t`*"


class Table:
    """The rule for one sort of column or row. `words`: how its name ends. `accepts`: judges a cell."""

    def __init__(self, name: str, words: str, accepts: Callable[[str], bool]) -> None:
        self.name = name
        either = words.replace(" ", "|").replace("_", "[ _-]")
        self._column = re.compile(rf"(?:.*[ _-])?(?:{either})", re.IGNORECASE)
        self._words = re.compile(either)
        self._accepts = accepts

    def spans(self, searched: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        text = searched.text
        if "|" not in text or not self._words.search(searched.lowered):
            return
        for pair in PAIR.finditer(text):
            if self._column.fullmatch(pair["name"].strip(AROUND)) and self._accepts(pair["secret"]):
                yield pair.span("secret")
        place = 0
        while RULER.search(text, place) and (head := HEAD.search(text, place)):
            names = [name.strip(AROUND) for name in head["names"].split("|")]
            wanted = {number for number, name in enumerate(names) if self._column.fullmatch(name)}
            place = head.end()
            while wanted and (row := ROW.match(text, place)):
                yield from self._in_row(text, row, wanted)
                place = row.end()

    def _in_row(self, text: str, row: re.Match[str], wanted: set[int]) -> Iterator[tuple[int, int]]:
        place = row.start()
        for number in range(max(wanted) + 1):
            cell = CELL.match(text, place, row.end())
            if cell is None:
                return
            secret = cell[0].strip(AROUND)
            if number in wanted and secret and " " not in secret and self._accepts(secret):
                start = text.index(secret, place)
                yield start, start + len(secret)
            place = cell.end() + 1


TABLES = (
    Table("password", "password passphrase passwort kennwort pass pwd pw", is_spoken),
    Table("secret", "secret token api_key apikey access_key", is_key),
)
