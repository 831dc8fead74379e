"""The front matter of a document: YAML between lines of `---`, or TOML between lines of `+++`, above its text."""

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

import yaml

LINE = r"[^\r\n]*+(?:\r\n?|\n)"
# YAML has a key, or only comments: a text may also begin with a rule, and have another one further down.
KEY = rf"(?:[ \t]*(?:#{LINE}|(?:\r\n?|\n)))*[\w\"'][^\r\n:]*:(?![^\s])(?s:.*?)"
YAML = re.compile(
    rf"\ufeff?---[ \t]*(?:\r\n?|\n)(?P<values>{KEY}|(?:#{LINE})+)(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)"
)
TOML = re.compile(r"\ufeff?\+\+\+[ \t]*(?:\r\n?|\n)(?P<values>(?s:.*?))(?<=[\r\n])\+\+\+[ \t]*(?:\r\n?|\n|\Z)")

# `title: One: two` is no YAML, but often written.
PAIR = re.compile(r"^(\w+):[ \t]+[\"']?([^\r\n]*?)[\"']?[ \t]*$", re.MULTILINE)

NOTHING = {"", "~", "null"}

MAX_LENGTH = 16_000
"""Characters. The values of longer front matter are not read: YAML is slow to read, and nobody writes so much."""


class FrontMatter(NamedTuple):
    """What a document says of itself. `end`: where its text begins, 0 without front matter. `date`: in ISO 8601."""

    end: int = 0
    title: str = ""
    tags: tuple[str, ...] = ()
    date: str | None = None


def front_matter_end(text: str) -> int:
    """Return where the text after the front matter begins; 0: there is none."""
    found = YAML.match(text) or TOML.match(text)
    return found.end() if found else 0


def read_front_matter(text: str) -> FrontMatter:
    """Return the end of the front matter and what it says. Values in an unknown form are left out."""
    is_yaml = YAML.match(text)
    found = is_yaml or TOML.match(text)
    if found is None:
        return FrontMatter()
    source = found["values"] if len(found["values"]) <= MAX_LENGTH else ""
    values = {str(key).lower(): value for key, value in (_yaml if is_yaml else _toml)(source).items()}
    return FrontMatter(found.end(), _text(values.get("title")), _tags(values.get("tags")), _date(values.get("date")))


def _yaml(source: str) -> Mapping[str, object]:
    try:
        values = yaml.load(source, yaml.BaseLoader)  # noqa: S506  builds nothing but texts, lists and mappings of them
    except (yaml.YAMLError, ValueError, RecursionError):
        return dict(PAIR.findall(source))
    return values if isinstance(values, dict) else {}


def _toml(source: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError):
        return {}


def _text(value: object) -> str:
    """Return a value on one line; nothing for values that are no text."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float | date) else ""
    return "" if text in NOTHING else text


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a list, or of a text with commas, without the `#` that some programs write."""
    each = value if isinstance(value, list) else _text(value).strip("[]").split(",")
    return tuple(dict.fromkeys(filter(None, (_text(tag).strip("\"'").lstrip("#").strip() for tag in each))))


def _date(value: object) -> str | None:
    """Return a date or time in ISO 8601; without a time zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(re.sub(r"\s+(?=[+-]\d)", "", _text(value)))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
