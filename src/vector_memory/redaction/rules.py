"""The rules for secrets, in the order in which they count: tokens first, then values behind a name."""

import json
import re
from importlib.resources import files

from vector_memory.redaction.judging import (
    is_key,
    is_password,
    is_quoted_password,
    is_split_url_password,
    is_token,
    is_url_password,
)
from vector_memory.redaction.rule import WORD_ENDS, WORD_STARTS, Rule, labelled
from vector_memory.redaction.tokens import TOKENS

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
    for one in json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))["rules"]
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
"""A word of its own, or the second half of a known one: `jsonwebtoken` is a package."""

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
"""It reaches to the last `@` before the host: not everybody escapes the ones in a password."""

IN_SPLIT_URL = r"""[\w+-]{0,60}+:(?!\d{1,5}[/?\#]|/)
    (?P<secret>(?=[^\s/?"'`<>]{0,300}+[/?])[^\s"'`<>]{1,300})@(?!sha\d{3}:)(?=[\w.-]{1,100}+(?:[:/?\s"'`,;)]|\Z))"""
"""A password with a slash or a question mark, which nothing that reads URLs takes for one."""

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
