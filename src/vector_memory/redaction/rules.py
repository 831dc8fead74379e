"""The rules by which secrets are recognized, in the order in which they count.

A rule's pattern is only tried where one of its anchors stands, and every part of it has a maximum length or cannot
backtrack: this keeps the time linear. Patterns are matched at the anchor, so what stands before it is a lookbehind.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vector_memory.redaction.judging import (
    any_value,
    entropy,
    is_key,
    is_password,
    is_quoted_password,
    is_spoken,
    is_stated,
    is_url_password,
)

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


LONG = 200
"""Nothing is looked for inside a longer value that is no secret."""


class Rule(NamedTuple):
    """A sort of secret.

    `anchors`: texts, one of which must occur; in lower case if `any_case`. `pattern`: matches at an anchor; its group
    `secret` is the secret. `min_entropy`: bits per character. `accepts`: judges the secret.
    """

    name: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    min_entropy: float = 0.0
    accepts: Callable[[str], bool] = any_value
    any_case: bool = True

    def spans(self, text: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        searched = text.lowered if self.any_case else text.text
        for anchor in self.anchors:
            if not self.any_case and anchor not in text.long_words:
                continue
            position = searched.find(anchor)
            while position >= 0:
                end = position + len(anchor)
                if found := self.pattern.match(text.text, position):
                    secret = found["secret"]
                    if entropy(secret) >= self.min_entropy and self.accepts(secret):
                        yield found.span("secret")
                    elif len(secret) > LONG:
                        end = found.end()
                position = searched.find(anchor, end)


def prefixed(name: str, prefixes: str, body: str, min_entropy: float = 3.0) -> Rule:
    """Return the rule for tokens of at least 20 characters that begin with one of the prefixes, separated by spaces."""
    starts = prefixes.split()
    either = "|".join(map(re.escape, starts))
    pattern = re.compile(rf"(?<![A-Za-z0-9])(?P<secret>(?:{either}){body})(?![A-Za-z0-9])")
    return Rule(name, tuple(starts), pattern, min_entropy, any_case=False)


def labelled(name: str, anchors: str, pattern: str, accepts: Callable[[str], bool], min_entropy: float = 0.0) -> Rule:
    """Return the rule for values behind something that says what they are. Anchors are separated by `|`."""
    return Rule(name, tuple(anchors.split("|")), re.compile(pattern, re.IGNORECASE | re.VERBOSE), min_entropy, accepts)


KEY_BODY = r"""
    -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?>(?:(?>(?:\s|\\[nr])*)[\w-]{1,30}:\ \S{1,100})*)
    (?P<secret>
        (?:(?>(?:\s|\\[nr]|["'+,])*)[A-Za-z0-9+/]{16,}+={0,2})+
        (?:(?>(?:\s|\\[nr]|["'+,])*)=?[A-Za-z0-9+/]{1,15}={0,2}(?=(?>(?:\s|\\[nr]|["'+,])*)-----END))?
    )
"""

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
)
OF_SECRETS = "|".join(f"(?<={word})|(?<={word}[ _-])" for word in BEFORE_KEY)
KEY_NAME = rf"""(?:secret|token|auth_?token|credential|(?:{OF_SECRETS}|(?-i:(?<=[A-Z]_)(?<!PUBLIC_)(?=K)))key)"""

NAME_ENDS = r"""
    (?!\w{0,40}(?:hash|regex|pattern|length|len|count|limit|expir|ttl|name|url|uri|file|path|type|header|field|ref\b|
        _at\b|policy|manager|(?<!ad)min|max|_?id\b|ids\b|izer|format|version|prefix))
    (?-i:s?(?=[^a-z])|(?=[A-Z]))[\w.-]{0,40}+
"""
IS = r"""(?>(?:\\{0,3}["'`\]*]){0,3}) \s{0,3}+ (?: =>|:=|={1,3}|[:\uff1a]|value= ) \*{0,2}+ \s{0,3}+"""
UNQUOTED = r"""(?!["'`]) (?P<secret>[^\s"'`<>,;()\[\]{}]{4,2048}+) (?![(\[])"""
QUOTED = r"""(?:b|r|u)?(?P<quote>\\{0,3}+["'`])
    (?P<secret>[^"'`\n\\]{1,2048}+ (?>(?:\\(?![\\"'`])[^"'`\n\\]{0,2048}+){0,99}))
    (?: (?P=quote) | \\{1,3}["'`])"""
"""The quotes are escaped in a text within a text."""

TAGGED = r"""(?P<secret>[^\s<>]{4,2048}+)</"""
IN_PROSE = r"""[^\s"'`<>,;()\[\]{}]"""
SPOKEN = rf"""["'`*]{{0,3}}+
    (?P<secret>{IN_PROSE}{{5,200}}?(?![.:?]){IN_PROSE}) (?=[.:?]{{0,3}}+(?!{IN_PROSE})) (?![(\[])"""
VERB = r"""(?:\ (?!is\b|was\b)[\w/'-]{1,20}){0,4} (?:\ (?:is|was|are|ist|war|lautet)|:) (?:\ now|\ still)? [ :]{1,2}"""

OTHER_NAMES = (
    "mot de passe|contraseña|contrasena|senha|wachtwoord|lösenord|adgangskode|passord|salasana|hasło|heslo|şifre|"
    "parola|пароль|密码|密碼|パスワード|비밀번호"
)
"""What a password is called in other languages than English and German."""

OTHER_IS = r"""["'`*]{0,3}+ (?:
    \s{0,3}+ [:=\uff1a] \*{0,2}+ \s{0,3}+ | \ (?:est|es|é|è|is|är|er|on|to|je|это)\ {1,3}+ | \s?(?:是|为|為|は|는|은)\s?
) ["'`*]{0,3}+ (?P<secret>[!#-&+-:=?-Z\\^_a-z~]{6,200}+)"""

RULES = (
    labelled("private key", "-----begin", KEY_BODY, any_value),
    prefixed("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,251}"),
    prefixed("GitHub token", "github_pat_", r"[A-Za-z0-9_]{40,255}"),
    prefixed("GitLab token", "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glagent-", r"[\w.-]{20,300}"),
    prefixed("AWS access key id", "AKIA ASIA", r"(?![A-Z0-9]*EXAMPLE)[A-Z2-7]{16}"),
    prefixed("Anthropic key", "sk-ant-", r"[\w-]{32,300}"),
    prefixed("OpenAI key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{32,300}"),
    prefixed("API key", "sk-or-v1- gsk_ pplx- xai- r8_ fw_ tvly- lsv2_pt_ lsv2_sk_ nvapi- csk-", r"[\w-]{30,300}"),
    prefixed("OpenAI key", "sk-", r"[A-Za-z0-9]{32,200}"),
    prefixed("Slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{20,300}"),
    labelled("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/\w{1,12}/ (?P<secret>[\w/]{20,120})", any_value),
    labelled("Discord webhook", "/api/webhooks/", r"/api/webhooks/\d{15,20}/ (?P<secret>[\w-]{30,120})", any_value),
    prefixed("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{16,250}"),
    prefixed("webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,200}"),
    prefixed("Google API key", "AIza", r"[\w-]{35}"),
    prefixed("Google client secret", "GOCSPX-", r"[\w-]{20,60}"),
    prefixed("Google access token", "ya29.", r"[\w-]{20,2000}"),
    prefixed("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    prefixed("PyPI token", "pypi-AgE", r"[\w-]{50,1000}"),
    prefixed("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    prefixed("Docker token", "dckr_pat_ dckr_oat_", r"[\w-]{20,100}"),
    prefixed("SendGrid key", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}"),
    prefixed("Mailgun key", "key-", r"[0-9a-f]{32}"),
    prefixed("Twilio key", "SK", r"[0-9a-f]{32}"),
    prefixed("Hugging Face token", "hf_ api_org_", r"[A-Za-z]{34}"),
    prefixed("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    prefixed("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    prefixed("Databricks token", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    prefixed("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[\w.-]{40,80}"),
    prefixed("Vault token", "hvs. hvb. hvr.", r"[\w-]{24,300}"),
    prefixed("Linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}"),
    prefixed("Notion token", "ntn_", r"[A-Za-z0-9]{40,60}"),
    prefixed("Figma token", "figd_ figo_", r"[\w-]{36,60}"),
    prefixed("Airtable token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    prefixed("Grafana token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    prefixed("Grafana token", "glc_eyJ", r"[A-Za-z0-9+/=]{32,400}"),
    prefixed("New Relic key", "NRAK- NRJS- NRII-", r"[\w-]{19,48}"),
    prefixed("Sentry token", "sntrys_ sntryu_", r"[\w+/=-]{40,400}"),
    prefixed("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    prefixed("Supabase key", "sbp_ sb_secret_", r"[\w-]{20,80}"),
    prefixed("Atlassian token", "ATATT3 ATCTT3 ATBB ATSTT3", r"[\w=-]{24,300}"),
    prefixed("Square token", "sq0atp- sq0csp- sq0idp-", r"[\w-]{22,50}"),
    prefixed("Pulumi token", "pul-", r"[0-9a-f]{40}"),
    prefixed("PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{32,64}"),
    prefixed("Tailscale key", "tskey-", r"[a-z]{1,10}-[A-Za-z0-9-]{20,80}"),
    prefixed("age key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    prefixed("Facebook token", "EAACE EAAG EAAB", r"[A-Za-z0-9]{60,300}"),
    prefixed("Dynatrace token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    labelled("Terraform token", ".atlasv1.", r"(?<=\w{14}) (?P<secret>\.atlasv1\.[\w-]{60,70})", any_value),
    labelled("Telegram token", ":aa", r"(?<=\d{8}) (?P<secret>:AA[\w-]{32,34}) (?![\w-])", any_value, 3.0),
    prefixed("JSON web token", "eyJ", r"[\w-]{8,8192}+\.[\w-]{8,8192}+\.[\w-]{8,8192}+"),
    labelled(
        "password hash",
        "$apr1$|$2a$|$2b$|$2y$|$argon2|$5$|$6$",
        r"(?P<secret>\$\w{1,9}\$[^\s\"':]{20,200})",
        any_value,
        3.0,
    ),
    labelled("password", "://", r"""://[^\s/:@"'`<>]{0,100}+:(?P<secret>[^\s/@"'`<>]{3,300}+)@""", is_url_password),
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
        "credential|login",
        r"""(?:credentials?|login)\b[^\n:]{0,20}?:\s*[\w.@+-]{1,60}\s*/\s*
        (?P<secret>[^\s"']{6,200}+)""",
        is_password,
    ),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {QUOTED}", is_key, 2.5),
    labelled("secret", "secret|token|key|credential", rf"{KEY_NAME} {NAME_ENDS} {IS} {UNQUOTED}", is_key, 2.5),
    labelled("secret", "secret|token|key", rf"{KEY_NAME} (?:{VERB}|\ {{1,3}}) {SPOKEN}", is_key, 3.0),
)
