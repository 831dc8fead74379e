"""Removes private parts, in `<private>` tags, and secrets from texts.

A placeholder names what it replaces: `[redacted: GitHub token]`. The time is linear in the length of the text.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from vector_memory.errors import ValidationError

__all__ = ["Redacted", "redact", "redact_within", "require_no_secret", "secrets_in"]

PRIVATE_TAG = re.compile(r"<(/?)private\b[^<>]{0,200}>(?!`)", re.IGNORECASE)
"""A tag alone in backticks is only mentioned."""

REPLACED = re.compile(r"\[redacted: [\w .-]{1,40}\]")

TAKEN = b"1"

FORMS = (('"', '": "', '"'), ("", ": ", ""))
"""Ways to write a name and a value: the text before, between and after them."""

QUOTE = re.compile(r"""["'`\\\n]""")
"""The mark that ends a quoted value."""

MIN_NAMED, MAX_NAMED = 6, 4_096
"""Shorter and longer values are not secrets, whatever their name."""

MAX_PASSES = 10
"""A secret may be recognized only when its neighbour is removed. No ordinary text needs more passes."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets. `count`: the number of places that were replaced."""

    text: str
    count: int


class Replacement(NamedTuple):
    """A half-open range of characters to replace, and the name of what is there."""

    start: int
    end: int
    name: str


def redact(text: str, *, keep_lines: bool = False) -> Redacted:
    """Replace private parts and secrets in a text; idempotent. `keep_lines`: keep the number of lines."""
    result = Redacted(text, 0)
    for _ in range(MAX_PASSES):
        places = private_places(result.text) or secret_places(result.text)
        if not places:
            break
        result = Redacted(replaced(result.text, places, keep_lines=keep_lines), result.count + len(places))
    return result


def redact_within(value: Any, name: str = "") -> tuple[Any, int]:
    """Return a JSON value with its texts and keys redacted, and the number of places that were replaced.

    `name`: the key of the value, which may announce a secret.
    """
    match value:
        case str():
            found = redact_named(name, redact(value))
            return found.text, found.count
        case int() | float() if (found := redact_named(name, Redacted(str(value), 0))).count:
            return found.text, found.count
        case list():
            parts = [redact_within(one, name) for one in value]
            return [part for part, _ in parts], sum(count for _, count in parts)
        case dict():
            named, total = dict[str, Any](), 0
            for key, one in value.items():
                (name, in_key), (part, in_value) = redact_within(key), redact_within(one, key)
                if in_key and name in named:  # two keys whose difference was removed
                    name = f"{name} {len(named) + 1}"
                named[name], total = part, total + in_key + in_value
            return named, total
    return value, 0


def redact_named(name: str, value: Redacted) -> Redacted:
    """Redact a value whose name announces a secret, as in `password: value`."""
    if not MIN_NAMED <= len(value.text) <= MAX_NAMED:
        return value

    from vector_memory.texts.redaction_rules import LABELLED  # noqa: PLC0415 - read when needed

    quoted = f'"{name.lower()}"'
    if not any(anchor in quoted for rule in LABELLED for anchor in rule.anchors):
        return value
    for before, between, behind in FORMS:
        start = f"{before}{name}{between}"
        shown = QUOTE.sub("-", value.text) if behind else value.text
        places = [
            Replacement(first - len(start), end - len(start), kind)
            for first, end, kind in secret_places(f"{start}{shown}{behind}")
            if first >= len(start)
        ]
        value = Redacted(replaced(value.text, places, keep_lines=False), value.count + len(places))
    return value


def require_no_secret(**names: str | None) -> None:
    """Raise ValidationError for a name with a secret or private part: without it, the name would be another."""
    for parameter, name in names.items():
        if name is not None and redact(name).count:
            raise ValidationError(
                f"{parameter} contains what looks like a secret, or a private part, which is not stored: send another."
            )


def secrets_in(text: str) -> list[str]:
    """Return the kinds of secrets that a text has, by the names of their placeholders."""
    return sorted({place.name for place in secret_places(text)})


def private_places(text: str) -> list[Replacement]:
    """Return the ranges of `<private>` tags, which may be nested; an unclosed one reaches to the end."""
    places, depth, start = [], 0, 0
    for tag in PRIVATE_TAG.finditer(text):
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            places += [] if depth else [Replacement(start, tag.end(), "private")]
    return [*places, Replacement(start, len(text), "private")] if depth else places


def secret_places(text: str) -> list[Replacement]:
    """Return the places of secrets, in order, without overlaps or earlier replacements; the first rule counts."""
    from vector_memory.texts.redaction_rules import RULES, Searched  # noqa: PLC0415 - read when needed

    taken = bytearray(len(text))
    for found in REPLACED.finditer(text):
        taken[found.start() : found.end()] = TAKEN * len(found[0])
    searched = Searched(REPLACED.sub(lambda found: "\0" * len(found[0]), text))
    places = []
    for rule in RULES:
        for start, end in rule.spans(searched):
            if taken.find(TAKEN, start, end) < 0:
                taken[start:end] = TAKEN * (end - start)
                places.append(Replacement(start, end, rule.name))
    return sorted(places)


def replaced(text: str, places: list[Replacement], *, keep_lines: bool) -> str:
    """Replace places, which are in order, by their names."""
    parts, position = [], 0
    for place in places:
        lines = text.count("\n", place.start, place.end) if keep_lines else 0
        parts += [text[position : place.start], f"[redacted: {place.name}]", "\n" * lines]
        position = place.end
    return "".join([*parts, text[position:]])
