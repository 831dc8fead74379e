"""The numbers and versions in a tag: what tells `api v1` from `api v2` though they look alike."""

import re

Number = tuple[int, ...]
"""A number, or a version part by part, without zeros at its end: `2`, `2.0` and `2.0.0` are all `(2,)`."""

DOTTED = r"(\d+(?:\.\d+)*)"
NUMBER = re.compile(DOTTED)

VERSIONED = """
    android angular ansible api bootstrap cakephp centos css debian django dotnet drupal elasticsearch electron es
    fedora flask go gradle helm html http ios java jdk jquery junit kafka kotlin kubernetes laravel log4j macos magento
    mariadb maven mongodb mysql net nextjs nginx node nodejs npm nuxt oauth openapi openssl oracle perl php phpunit
    postgres postgresql pydantic python rails react redis rhel ruby rust scala spring sqlite ssl swift symfony tailwind
    terraform tls typescript ubuntu vue webpack windows wordpress
    """.split()  # noqa: SIM905 - a hundred lines shorter
"""A number after one of these is a version."""

VERSION = re.compile(rf"(?<![a-z0-9])(?:v|ver|version|{'|'.join(VERSIONED)})[ .\-_]?{DOTTED}(?![a-z0-9]|\.\d)")
"""Not within a word, which `_` ends too; and the whole of a number: `v2.1beta` names no version 2."""


def numbers(tag: str) -> frozenset[Number]:
    """Return all numbers in a tag, those within words too: of `php7` it is 7."""
    return frozenset(map(parsed, NUMBER.findall(tag)))


def versions(tag: str) -> frozenset[Number]:
    """Return the versions in a tag: `v2.0`, `version 2`, `ver 3.0`, or a number after a name like `api`."""
    return frozenset(map(parsed, VERSION.findall(tag)))


def parsed(text: str) -> Number:
    """Return a number with dots as a value that compares: `1.10` is `(1, 10)`, `2.0` is `(2,)`."""
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
