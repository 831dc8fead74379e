"""What a rule is: a sort of secret, and how it is found.

A rule's pattern is only tried where one of its anchors stands, and every part of it has a maximum length or cannot
backtrack: this keeps the time linear. Patterns are matched at the anchor, so what stands before it is a lookbehind.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

# Tells secrets from names, code, numbers and placeholders.

PLACEHOLDER = re.compile(
    r"""
    ^\$\{?[a-z_][\w.:]*\}?$ | ^%\w | \$\{ | \{\{ | \{[\w.\s:$]*\} | \$\( | %\(\w | ^<.*>$ | \.\.\. | … | (.)\1{5,} |
    your[_-] | [_-]here$ | example | changeme | change[_-]me | placeholder | replace | redacted | dummy | sample |
    ^todo | ^fixme | ^enc\[ | ^[.~]{1,2}/ | ^/(?:\w+/){2} | ^(?:/[a-z_-]+){2,}(?:[?.\#]|$) | ^arn: | ^\^ | ^![a-z]+$ |
    \.(?:html?|md|py|json|ya?ml|txt)\b | \[a-z | ^\w+\\
    """,
    re.IGNORECASE | re.VERBOSE,
)
CODE = re.compile(
    r"""
    [A-Za-z_$]\w* (?: (?:\.|::|->|\?\.) [A-Za-z_]\w* )+ |  # a.b.c
    [A-Za-z]+ (?:[_-][A-Za-z]+)* [_-]?\d?  # some_name, some-name, SomeName2
    """,
    re.VERBOSE,
)
VERSION = re.compile(
    r"(?:[@\w./-]{1,200}[:@/]|[\w.-]{1,200}[=~<>!^]=)?[\^~<>=v]{0,3}\d{1,8}(?:\.\d{1,8}){1,3}(?:[-+.][A-Za-z][\w.+-]*)?"
)
"""A version, perhaps behind a package's name: `1.0.0-beta.2`, `jjwt-impl:0.11.5`, `^4.0.0`."""

DIGEST = re.compile(r"(?:sha\d{1,3}|md5|h1)[-:][A-Za-z0-9+/=]+")
NAMES = re.compile(
    r"passw|token|secret|key|user|admin|test|arg|value|field|param|config|str|int|old|new", re.IGNORECASE
)
WORDS = frozenset(
    ["password", "passwd", "pass", "secret", "postgres", "guest", "root", "admin", "string", "required", "none", "null"]
)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
"""The words of a name such as `maxHTTPRetries2`."""

PART_LENGTH = 3.4
"""Names have longer words, on average, and random characters shorter ones."""

PHRASE = re.compile(r"[a-z]+(?: [a-z]+){2,}")
LINKED_PHRASE = re.compile(r"[a-z]{3,}(?:-[a-z]{3,}){3,}")
"""Four words that a generator of passwords put together."""

SIGNS = "!@#$%^&+"
MIN_URL_PASSWORD, MIN_PASSWORD, MIN_KEY = 3, 6, 16


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())


def any_value(_value: str) -> bool:
    """Accept everything: the pattern says enough."""
    return True


def is_token(value: str) -> bool:
    """Return whether a token has a digit, as every random one of that length, and is no example of a documentation."""
    return any(map(str.isdigit, value)) and "example" not in value.lower()


def is_password(value: str) -> bool:
    """Return whether a value that is called a password looks like one."""
    if len(value) < MIN_PASSWORD or value.lower() in WORDS or PLACEHOLDER.search(value):
        return False
    if LINKED_PHRASE.fullmatch(value):
        return True
    if CODE.fullmatch(value):
        return is_random_word(value) or (any(map(str.isdigit, value)) and value.isalnum() and not NAMES.search(value))
    return any(map(str.isdigit, value)) or is_random_word(value) or any(sign in value for sign in SIGNS)


def is_url_password(value: str) -> bool:
    """Return whether the password in a URL is more than an example."""
    return len(value) >= MIN_URL_PASSWORD and value.lower() not in WORDS and not PLACEHOLDER.search(value)


def is_split_url_password(value: str) -> bool:
    """Return whether what stands in a URL where a password would is one although it has a slash or a question mark."""
    is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return is_mixed and "//" not in value and is_url_password(value)


def is_quoted_password(value: str) -> bool:
    """Return whether a quoted value that is called a password looks like one: it may be a phrase of several words."""
    if " " in value:
        return bool(PHRASE.fullmatch(value))
    return is_password(value)


def is_key(value: str) -> bool:
    """Return whether a value that is called a key, a token or a secret looks like one."""
    if len(value) < MIN_KEY or PLACEHOLDER.search(value) or " " in value:
        return False
    if ("." in value and VERSION.fullmatch(value)) or DIGEST.fullmatch(value):
        return False
    if CODE.fullmatch(value):
        return is_random_word(value)
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_random_word(value: str) -> bool:
    """Return whether small and capital letters and digits alternate more often than in any name."""
    parts = PARTS.findall(value)
    alternates = any(map(str.isdigit, value)) or not value.islower()
    return alternates and len(value) >= MIN_PASSWORD and len(parts) * PART_LENGTH > sum(map(len, parts))


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
