"""The rules for secrets, in the order in which they count: tokens first, then values behind a name."""

import json
import re
from importlib.resources import files

from vector_memory.redaction.judging import (
    is_key,
    is_password,
    is_quoted_password,
    is_split_url_password,
    is_spoken,
    is_stated,
    is_token,
    is_url_password,
)
from vector_memory.redaction.rule import WORD_ENDS, WORD_STARTS, Leading, Rule, labelled
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


PW_NAME = r"""(?: pass(?:word|wd|phrase|wort|code)|kennwort | (?<![a-z0-9])(?:pass|pwd|pw)(?![a-z0-9]) )"""
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
IN_PROSE = r"""[^\s"'`<>,;()\[\]{}]"""
SPOKEN = rf"""["'`*]{{0,3}}+
    (?P<secret>{IN_PROSE}{{5,200}}?(?![.:?]){IN_PROSE}) (?=[.:?]{{0,3}}+(?!{IN_PROSE})) (?![(\[])"""
VERB = r"""(?!\ (?:manager|policy|strength|generator|field|input|format|length|hash|type|url|endpoint|arn)s?\b)
    (?:\ (?!is\b|was\b)[\w/'-]{1,20}){0,4} (?:\ (?:is|was|are|ist|war|lautet)|:) (?:\ now|\ still)? [ :]{1,2}"""

USER = r"""[^\s/:"'`<>]{0,100}+"""
IN_URL = r"""(?!\d{1,5}[/?\#])
    (?P<secret>[^\s/@"'`<>]{0,300}+(?:@[^\s/?@"'`<>]{0,100}+){0,20})@(?!sha\d{3}:)(?=[\w\[$%{])"""
"""It reaches to the last `@` before the host: not everybody escapes the ones in a password."""

IN_SPLIT_URL = r"""[\w+-]{0,60}+:(?!\d{1,5}[/?\#]|/)
    (?P<secret>(?=[^\s/?"'`<>]{0,300}+[/?])[^\s"'`<>]{1,300})@(?!sha\d{3}:)(?=[\w.-]{1,100}+(?:[:/?\s"'`,;)]|\Z))"""
"""A password with a slash or a question mark, which nothing that reads URLs takes for one."""

ASIDE = r"""(?:\*{0,2}["'`]?\ ?(?:\([^()\n]{1,40}\)|\ (?:for|of|to|in)(?:\ [\w.-]{1,30}){1,3}|\#?\d{1,3}))"""
DASH = rf"""(?=["'`*\ ,:=|~>\u2192\u2013\u2014\n-]) (?:{ASIDE} ["'`*]{{0,3}}[:=] | {ASIDE}? ["'`*]{{0,3}}
    (?:\ {{0,3}}(?:->|=>|[\u2192\u2013\u2014|~]|[:=]\ ?\n)|\ {{1,3}}--?(?=\ )|,(?=\ )|\n))\s{{0,8}}+"""
"""What people write between a name and its value, as in `API key - 4f...` or `token (staging): 4f...`."""

OTHER_NAMES = (
    "mot de passe|contraseña|contrasena|senha|wachtwoord|lösenord|adgangskode|passord|salasana|hasło|heslo|şifre|"
    "parola|пароль|密码|密碼|パスワード|비밀번호"
)
"""What a password is called in other languages than English and German."""

OTHER_IS = r"""["'`*]{0,3}+ (?:
    \s{0,3}+ [:=\uff1a] \*{0,2}+ \s{0,3}+ | \ (?:est|es|é|è|is|är|er|on|to|je|это)\ {1,3}+ | \s?(?:是|为|為|は|는|은)\s?
) ["'`*]{0,3}+ (?P<secret>[!#-&+-:=?-Z\\^_a-z~]{6,200}+)"""

COMMANDS: tuple[Rule | Leading, ...] = (
    labelled(
        "password",
        "-u|--user",
        r"""(?<=\s)(?:-u|--user)[ =]?["']?[^\s:"'$]{1,60}+:
        (?P<secret>[^\s"']{4,200}+)""",
        is_password,
    ),
    labelled(
        "password",
        "mysql|mariadb|mongo|sshpass|docker login|twine|redis-cli|podman login",
        r"""(?:mysql|mariadb|mongo|sshpass|docker\ login|twine|redis-cli|podman\ login)[^\n|;]{0,200}?\s(?-i:-[pa])\s?
        ["']?(?P<secret>[^\s"'$:][^\s"':]{3,200}+)""",
        is_password,
    ),
    labelled(
        "password",
        "zip|7z|smbclient|http -a|http --auth",
        r"""(?:zip\b[^\n|;]{0,100}?\s(?-i:-P)\s? | 7z[ar]?\s[^\n|;]{0,100}?\s(?-i:-p) |
        smbclient\b[^\n|;]{0,100}?\s-U[ =]?["']?[^\s%]{1,60}% | http\ (?:-a|--auth)[ =]["']?[^\s:]{1,60}:)
        ["']?(?P<secret>[^\s"'$:][^\s"']{3,200}+)""",
        is_password,
    ),
    labelled(
        "password",
        "requirepass|masterauth|bindpw|rootpw|storepass|keypass",
        r"""(?:requirepass|masterauth|bindpw|rootpw|storepass|keypass) [ \t]{1,4}["']?(?P<secret>[^\s"'$]{4,200}+)""",
        is_password,
    ),
    labelled(
        "password",
        "identified by|identified with|set password for",
        r"""(?:identified(?:\ with\ [\w'"]{1,60})?\ (?:by|as)(?:\ password)? |
        set\ password\ for\ [^\s=]{1,100}\s?=\s?(?:password\()?)
        \s?["'](?P<secret>[^\s"']{3,200}+)["']""",
        is_password,
    ),
    labelled(
        "password",
        "oracle:thin:|oracle:oci|sqlplus ",
        r"""(?:oracle:(?:thin|oci8?): | sqlplus(?:\ -\w{1,10}){0,4}\ ["']?) [\w$\#]{1,60}/["']?
        (?P<secret>[^\s"'@]{3,200}+)(?=["']?(?:@|\s|\Z))""",
        is_url_password,
    ),
    labelled("password", "psk=", r"""(?<![a-z0-9])psk=["']?(?P<secret>[^\s"']{8,64}+)""", is_password),
    labelled(
        "password", ":5432:", r""":5432:[\w.*-]{1,60}:[\w.*-]{1,60}:(?P<secret>[^\s"'`]{3,200}+)""", is_url_password
    ),
    Leading(
        "password", ("@tcp(", "@unix("), r"""(?<![\w.-])[\w.-]{1,60}+:(?P<secret>[^\s"'`]{3,200})\Z""", is_url_password
    ),
    Leading(
        "password",
        ("--password-stdin", "chpasswd"),
        r"""(?:echo|printf)(?:\ -\w){0,2}\ ["']?(?:[\w.-]{1,60}:)?
        (?P<secret>[^\s"'`$|]{4,200})["']?\s?\|[^|\n]{0,200}\Z""",
        is_password,
    ),
)
"""Passwords in commands, and in lines of configuration."""

LABELLED: tuple[Rule | Leading, ...] = (
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
    *COMMANDS,
    labelled("password", "pass|pwd|pw|kennwort", rf"{PW_NAME} {NAME_ENDS} {IS} {QUOTED}", is_quoted_password),
    labelled("password", "pass|pwd|pw|kennwort", rf"{PW_NAME} {NAME_ENDS} {IS} {UNQUOTED}", is_password),
    labelled("password", OTHER_NAMES, rf"(?-x:{OTHER_NAMES}) {OTHER_IS}", is_stated),
    labelled("password", "pass|pwd", rf"(?<=<) {PW_NAME} > {TAGGED}", is_password),
    labelled("secret", "secret|token|key", rf"{KEY_NAME} > {TAGGED}", is_key, 2.5),
    labelled("password", "pass|kennwort", rf"{PW_NAME} {VERB} {SPOKEN}", is_stated),
    labelled("password", "pass|kennwort", rf"(?:password|passphrase|passwort|kennwort) \ {{1,3}} {SPOKEN}", is_spoken),
    labelled("password", "pass|kennwort", rf"{PW_NAME} {VERB} {QUOTED}", is_quoted_password),
    labelled(
        "password",
        "cred|login",
        r"""(?:credentials?|creds|login)\b[^\n:]{0,20}? (?::|\ is\ )\s*[\w.@+-]{1,60}\s*/\s*
        (?P<secret>[^\s"']{6,200}+)""",
        is_password,
    ),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {QUOTED}", is_key, 2.5),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {UNQUOTED}", is_key, 2.5),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {DASH} {SPOKEN} (?!\.\.)", is_key, 3.0),
    labelled("password", "pass|kennwort", rf"{PW_NAME} {DASH} {SPOKEN} (?!\.\.)", is_spoken),
    labelled("secret", "secret|token|key", rf"{KEY_NAME} (?:{VERB}|\ {{1,3}}) {SPOKEN}", is_key, 3.0),
)

RULES = (*TOKENS, *PUBLISHED, *LABELLED)
