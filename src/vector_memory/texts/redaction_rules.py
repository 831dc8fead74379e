"""The rules for secrets, in order of precedence: tokens first, then values after a name."""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# Tells secrets from names, code, numbers and placeholders.

# A rule's pattern is only tried at its anchors, and every part of it has a maximum length or cannot backtrack: this
# keeps the time linear. Patterns are matched at the anchor, so anything before it is a lookbehind.

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
"""A version, perhaps after a package's name: `1.0.0-beta.2`, `jjwt-impl:0.11.5`, `^4.0.0`."""

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
"""Average length of a part: longer in names, shorter in random characters."""

PHRASE = re.compile(r"[a-z]+(?: [a-z]+){2,}")
LINKED_PHRASE = re.compile(r"[a-z]{3,}(?:-[a-z]{3,}){3,}")
"""Four words, as password generators join them."""

SIGNS = "!@#$%^&+"
MIN_URL_PASSWORD, MIN_PASSWORD, MIN_KEY = 3, 6, 16


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())


def any_value(_value: str) -> bool:
    """Accept everything: the pattern is sufficient."""
    return True


def is_token(value: str) -> bool:
    """Whether a token has a digit, as all random ones of that length do, and is not an example."""
    return any(map(str.isdigit, value)) and "example" not in value.lower()


def is_password(value: str) -> bool:
    """Whether a value called a password looks like one."""
    if len(value) < MIN_PASSWORD or value.lower() in WORDS or PLACEHOLDER.search(value):
        return False
    if LINKED_PHRASE.fullmatch(value):
        return True
    if CODE.fullmatch(value):
        return is_random_word(value) or (any(map(str.isdigit, value)) and value.isalnum() and not NAMES.search(value))
    return any(map(str.isdigit, value)) or is_random_word(value) or any(sign in value for sign in SIGNS)


def is_url_password(value: str) -> bool:
    """Whether the password in a URL is more than an example."""
    return len(value) >= MIN_URL_PASSWORD and value.lower() not in WORDS and not PLACEHOLDER.search(value)


def is_split_url_password(value: str) -> bool:
    """Whether text in a URL's password position is a password despite a slash or question mark."""
    is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return is_mixed and "//" not in value and is_url_password(value)


def is_quoted_password(value: str) -> bool:
    """Whether a quoted value called a password looks like one; it may be a phrase of several words."""
    if " " in value:
        return bool(PHRASE.fullmatch(value))
    return is_password(value)


def is_key(value: str) -> bool:
    """Whether a value called a key, a token or a secret looks like one."""
    if len(value) < MIN_KEY or PLACEHOLDER.search(value) or " " in value:
        return False
    if ("." in value and VERSION.fullmatch(value)) or DIGEST.fullmatch(value):
        return False
    if CODE.fullmatch(value):
        return is_random_word(value)
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_random_word(value: str) -> bool:
    """Whether small and capital letters and digits alternate more often than in any name."""
    parts = PARTS.findall(value)
    alternates = any(map(str.isdigit, value)) or not value.islower()
    return alternates and len(value) >= MIN_PASSWORD and len(parts) * PART_LENGTH > sum(map(len, parts))


LONG_WORD = 20
"""Minimum length of a token recognized by its prefix."""

DOTTED_I = "\u0130"
"""The only character whose lower case is longer than itself."""


class Searched:
    """A text with the places of anchors. Words long enough for a token are searched first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lowered = text.replace(DOTTED_I, "I").lower()
        words = {word for word in text.split() if len(word) >= LONG_WORD}
        self._long_words = "\n".join(words)
        self._lowered_words = self._long_words.lower()
        self._places: dict[tuple[str, bool, bool], list[int]] = {}

    def places_of(self, anchor: str, *, any_case: bool, in_word: bool) -> list[int]:
        """Return the places of an anchor. `in_word`: none unless a long word contains it."""
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
"""Patterns are compiled when a text has one of their anchors; most texts have few."""

WORD_STARTS, WORD_ENDS = "(?<![A-Za-z0-9])", "(?![A-Za-z0-9])"
LONG = 200
"""The inside of a longer value that is not a secret is not searched."""


class Rule(NamedTuple):
    """A kind of secret.

    `anchors`: texts, one of which must occur; in lower case if `any_case`. `pattern`: matches at an anchor; its group
    `secret` is the secret. `min_entropy`: bits per character. `accepts`: judges the secret. `before`: number of
    characters between the start of the pattern and the anchor. `in_word`: the secret is in a long word.
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
    """Return the rule for tokens of at least 20 characters with one of the prefixes, which are separated by spaces."""
    starts = prefixes.split()
    either = "|".join(map(re.escape, starts))
    pattern = rf"{WORD_STARTS}(?P<secret>(?:{either}){body}){WORD_ENDS}"
    return Rule(name, tuple(starts), pattern, re.NOFLAG, min_entropy, any_case=False, in_word=True)


def labelled(name: str, anchors: str, pattern: str, accepts: Callable[[str], bool], min_entropy: float = 0.0) -> Rule:
    """Return the rule for values after a label. Anchors are separated by `|`."""
    return Rule(name, tuple(anchors.split("|")), pattern, re.IGNORECASE | re.VERBOSE, min_entropy, accepts)


# Tokens recognized by their prefixes.

KEY_BODY = r"""
    -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?>(?:(?>(?:\s|\\[nr])*)[\w-]{1,30}:\ \S{1,100})*)
    (?P<secret>
        (?:(?>(?:\s|\\[nr]|["'+,])*)[A-Za-z0-9+/]{16,}+={0,2})+
        (?:(?>(?:\s|\\[nr]|["'+,])*)=?[A-Za-z0-9+/]{1,15}={0,2}(?=(?>(?:\s|\\[nr]|["'+,])*)-----END))?
    )
"""

PREFIXES = tomllib.loads((files(__package__) / "redaction_prefixes.toml").read_text(encoding="utf-8"))["tokens"]
"""Rows of `prefixed`: name, prefixes, body."""

TOKENS = (
    labelled("private key", "-----begin", KEY_BODY, any_value),
    *(prefixed(*row) for row in PREFIXES),
    labelled("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/\w{1,12}/ (?P<secret>[\w/]{20,120})", any_value),
    labelled("Discord webhook", "/api/webhooks/", r"/api/webhooks/\d{15,20}/ (?P<secret>[\w-]{30,120})", any_value),
    labelled("Okta token", "ssws", r"(?<![a-z0-9])ssws\s{1,3}(?P<secret>[\w=-]{30,60})(?![\w-])", any_value, 3.0),
    labelled(
        "PagerDuty key",
        "pagerduty|pager_duty|pd_",
        r"""(?<![a-z0-9])(?:pager_?duty|pd)[\ \w.-]{0,30}? (?:key|token)
        (?:[\ "'`]{0,3}[:=][\ "'`]{0,3}|\ (?:is\ )?["'`]?)
        (?P<secret>[uy][+_][\w+-]{18}|[a-z0-9]{20}|[0-9a-f]{32})(?![\w-])""",
        any_value,
        3.0,
    ),
    labelled(
        "Teams webhook",
        ".webhook.office.com/|outlook.office.com/|outlook.office365.com/",
        r"(?:\.webhook\.office|outlook\.office(?:365)?)\.com/webhookb?2?/(?P<secret>[\w@/-]{60,300}+)",
        any_value,
    ),
    Rule(
        "Azure client secret",
        ("Q~",),
        rf"{WORD_STARTS}(?P<secret>[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}})(?![\w~-])",
        re.NOFLAG,
        3.0,
        any_case=False,
        in_word=True,
        before=4,
    ),
    labelled("Telegram token", ":aa", r"(?<=\d{8}) (?P<secret>:AA[\w-]{32,34}) (?![\w-])", any_value, 3.0),
    # Not inside a word with `_`: the word would be read to its end from each `eyJ`.
    Rule(
        "JSON web token",
        ("eyJ",),
        r"(?<![\w-])(?P<secret>eyJ[\w-]{8,8192}+\.[\w-]{8,8192}+\.[\w-]{8,8192}+)",
        re.NOFLAG,
        3.0,
        any_case=False,
        in_word=True,
    ),
    labelled(
        "password hash",
        "$apr1$|$2a$|$2b$|$2y$|$argon2|$5$|$6$",
        r"(?P<secret>\$\w{1,9}\$[^\s\"':]{20,200})",
        any_value,
        3.0,
    ),
)


MIN_ENTROPY = 3.0

PUBLISHED = tuple(
    Rule(
        one["name"],
        tuple(one["anchors"]),
        f"{WORD_STARTS}(?P<secret>{one['pattern']}){WORD_ENDS}",
        re.NOFLAG,
        max(one["min_entropy"], MIN_ENTROPY),
        is_token,
        one["any_case"],
        one["before"],
        in_word=True,
    )
    for one in json.loads((files(__package__) / "redaction_rules.json").read_text(encoding="utf-8"))["rules"]
)


PW_NAME = r"""(?: pass(?:word|wd|phrase|wort|code)|kennwort|mot\ de\ passe|contraseña|senha|пароль|密码|パスワード |
    (?<![a-z0-9])(?:pass|pwd|pw)(?![a-z0-9]) )"""
PW_ANCHORS = "pass|pwd|pw|kennwort|mot de passe|contraseña|senha|пароль|密码|パスワード"
BEFORE_KEY = (
    "api",
    "app",
    "access",
    "secret",
    "private",
    "encryption",
    "auth",
    "account",
    "signing",
    "master",
    "license",
    "developer",
    "integration",
)
OF_SECRETS = "|".join(f"(?<={word})|(?<={word}[ _-])" for word in BEFORE_KEY)
BEFORE_TOKEN = (
    *("auth", "oauth", "access", "refresh", "session", "bearer", "api", "app", "bot", "user", "my", "id", "client"),
    *("jwt", "csrf", "db", "deploy", "push", "github", "gitlab", "slack", "discord", "telegram", "stripe", "npm", "hf"),
    *("shared", "webhook", "consumer", "signing", "cookie", "master"),
)
HALVES = "|".join(f"(?<={word})" for word in BEFORE_TOKEN)
TOKEN = rf"""(?<!public\ key\ )(?<!publickey) (?:(?<![a-z])|(?-i:(?<=[a-z])(?=[A-Z]))|{HALVES})(?:token|secret)"""
"""A separate word, or the second half of a known one: `jsonwebtoken` is a package."""

KEY_NAME = rf"""(?:{TOKEN}|credential|(?:{OF_SECRETS}|(?-i:(?<=[A-Z]_)(?<!PUBLIC_)(?=K)))key)"""

NAME_ENDS = r"""
    (?![\w.-]{0,40}(?:hash|regex|pattern|length|len|count|limit|expir|ttl|name|url|uri|file|path|type|header|field|ref\b|
        _at\b|policy|manager|(?<!ad)min|max|_?id\b|ids\b|izer|format|version|prefix|endpoint|arn\b|
        strength|generator))
    (?-i:s?(?=[^a-z])|(?=[A-Z]))[\w.-]{0,40}+
"""
IS = r"""(?>(?:\\{0,3}["'`\]*]){0,3}) \s{0,3}+ (?: =>|:=|={1,3}|[:\uff1a]|value= ) \*{0,2}+ \s{0,3}+
    (?:[|>][+-]?\s{1,20}+)?"""
UNQUOTED = r"""(?!["'`]) (?P<secret>[^\s"'`<>,;()\[\]{}]{4,2048}+) (?![(\[])"""
QUOTED = r"""(?:b|r|u)?(?P<quote>\\{0,3}+["'`])
    (?P<secret>[^"'`\n\\]{1,2048}+ (?>(?:\\(?![\\"'`])[^"'`\n\\]{0,2048}+){0,99}))
    (?: (?P=quote) | \\{1,3}["'`])"""
"""The quotes are escaped in a text within a text."""


TAGGED = r"""(?P<secret>[^\s<>]{4,2048}+)</"""
USER = r"""[^\s/:"'`<>]{0,100}+"""
IN_URL = r"""(?!\d{1,5}[/?\#])
    (?P<secret>[^\s/@"'`<>]{0,300}+(?:@[^\s/?@"'`<>]{0,100}+){0,20})@(?!sha\d{3}:)(?=[\w\[$%{])"""
"""Reaches to the last `@` before the host: a password may contain unescaped ones."""

IN_SPLIT_URL = r"""[\w+-]{0,60}+:(?!\d{1,5}[/?\#]|/)
    (?P<secret>(?=[^\s/?"'`<>]{0,300}+[/?])[^\s"'`<>]{1,300})@(?!sha\d{3}:)(?=[\w.-]{1,100}+(?:[:/?\s"'`,;)]|\Z))"""
"""A password with a slash or a question mark, which URL parsers do not recognize."""

LABELLED = (
    labelled("password", "://", rf"://{USER}:{IN_URL}", is_url_password),
    labelled("password", "://", rf"://{IN_SPLIT_URL}", is_split_url_password),
    labelled("token", "bearer", r"""bearer(?>(?:\s|%20){1,3})["']?(?P<secret>[\w.~+/=-]{16,4096}+)""", is_key, 2.5),
    labelled("password", "basic", r"""basic\s{1,3}+(?P<secret>[A-Z0-9+/]{12,1000}+={0,2})(?![\w-])""", is_key, 3.0),
    labelled("password", '"auth"', r""""auth"\s{0,3}:\s{0,3}"(?P<secret>[A-Z0-9+/]{12,2000}+={0,2})" """, is_key, 3.0),
    labelled(
        "cookie",
        "cookie",
        r"""cookie["']?\s{0,3}[:=][^\n]{0,300}?(?:sess|sid|auth|token)[\w.-]{0,20}+=
        (?P<secret>[^\s;"']{16,4096}+)""",
        is_key,
        3.0,
    ),
    labelled("signature", "sig=|signature=", r"""sig(?:nature)?=(?P<secret>[\w%+/=-]{32,400}+)""", is_key, 3.0),
    labelled("password", PW_ANCHORS, rf"{PW_NAME} {NAME_ENDS} {IS} {QUOTED}", is_quoted_password),
    labelled("password", PW_ANCHORS, rf"{PW_NAME} {NAME_ENDS} {IS} {UNQUOTED}", is_password),
    labelled("password", "pass|pwd", rf"(?<=<) {PW_NAME} > {TAGGED}", is_password),
    labelled("secret", "secret|token|key", rf"{KEY_NAME} > {TAGGED}", is_key, 2.5),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {QUOTED}", is_key, 2.5),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {UNQUOTED}", is_key, 2.5),
)

RULES = (*TOKENS, *PUBLISHED, *LABELLED)
