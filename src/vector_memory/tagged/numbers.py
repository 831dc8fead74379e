"""The numbers and versions in a tag. They distinguish similar tags such as `api v1` and `api v2`."""

import re

Version = tuple[int, ...]
"""A number or the parts of a version, without trailing zeros: `2`, `2.0` and `2.0.0` are all `(2,)`."""

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

VERSION_PATTERN = re.compile(rf"(?<![a-z0-9])(v|ver|version|{'|'.join(VERSIONED)})[ .\-_]?{DOTTED}(?![a-z0-9]|\.\d)")
"""Matches only whole words (`_` also ends a word) and whole numbers: `v2.1beta` does not contain version 2."""


def numbers(tag: str) -> frozenset[Version]:
    """Return all numbers in a tag, also within words: `php7` contains 7."""
    return frozenset(map(parse_version, NUMBER.findall(tag)))


def versions(tag: str) -> frozenset[Version]:
    """Return the versions in a tag: `v2.0`, `version 2`, `ver 3.0`, or a number after a name such as `api`."""
    return frozenset(parse_version(number) for _, number in VERSION_PATTERN.findall(tag))


def with_plain_versions(tag: str) -> str:
    """Return a tag with its versions in one form: `v2.0` and `version 2` become `v2`, `api 2.0` becomes `api v2`."""

    def plain(found: re.Match[str]) -> str:
        name, number = found.groups()
        mark = "v" if name in {"v", "ver", "version"} else f"{name} v"
        return mark + ".".join(map(str, parse_version(number)))

    return VERSION_PATTERN.sub(plain, tag)


def parse_version(text: str) -> Version:
    """Parse a dotted number into a comparable value: `1.10` is `(1, 10)`, `2.0` is `(2,)`."""
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
