"""The front matter of a document: YAML between lines of `---`, TOML between lines of `+++`, or a JSON object."""

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

import yaml

LINE = r"[^\r\n]*+(?:\r\n?|\n)"
# YAML has a key, or only comments: a text may also begin with a rule, and have another one further down.
KEY = rf"(?:[ \t]*(?:#{LINE}|(?:\r\n?|\n)))*[\w\"'$.{{][^\r\n:]*:(?![^\s])(?s:.*?)"
YAML = re.compile(
    rf"\ufeff?---(?:[ \t]*ya?ml)?[ \t]*(?:\r\n?|\n)(?P<values>{KEY}|(?:#{LINE})+)"
    r"(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)"
)
TOML = re.compile(r"\ufeff?\+\+\+[ \t]*(?:\r\n?|\n)(?P<values>(?s:.*?))(?<=[\r\n])\+\+\+[ \t]*(?:\r\n?|\n|\Z)")
JSON = re.compile(r"\ufeff?(?=\{\s*\")")
AFTER_JSON = re.compile(r"[ \t]*(?:\r\n?|\n|\Z)")

FIELD = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
# `title: One: two` is no YAML, but often written.
PAIR = re.compile(r"^(\w+):[ \t]+[\"']?([^\r\n]*?)[\"']?[ \t]*$", re.MULTILINE)

SEPARATOR = re.compile(r",|\s(?=#)")
NOTHING = {"", "~", "null"}

MAX_LENGTH = 16_000
"""Characters. Values of longer front matter are ignored: YAML parses slowly, and real front matter is short."""


class FrontMatter(NamedTuple):
    """What a document says of itself. `end`: where its text begins, 0 without front matter. `date`: in ISO 8601."""

    end: int = 0
    title: str = ""
    tags: tuple[str, ...] = ()
    date: str | None = None


def front_matter_end(text: str) -> int:
    """Return where the text after the front matter begins; 0: there is none."""
    if found := YAML.match(text) or TOML.match(text):
        return found.end()
    return _json_above(text, found.end())[0] if (found := JSON.match(text)) else 0


def read_front_matter(text: str) -> FrontMatter:
    """Return the end of the front matter and what it says. Values in an unknown form are left out."""
    if found := YAML.match(text) or TOML.match(text):
        source = found["values"] if len(found["values"]) <= MAX_LENGTH else ""
        end, values = found.end(), (_yaml if found.re is YAML else _toml)(source)
    elif found := JSON.match(text):
        end, values = _json_above(text, found.end())
    else:
        return FrontMatter()
    named = {str(key).lower(): value for key, value in values.items()}
    return FrontMatter(end, _text(named.get("title")), _tags(_tags_in(named)), _date(named.get("date")))


def _json_above(text: str, start: int) -> tuple[int, Mapping[str, object]]:
    """Return where the JSON object above a text ends, and its values; 0 if it has no title, as other JSON."""
    try:
        values, end = json.JSONDecoder().raw_decode(text[: start + MAX_LENGTH], start)
    except (ValueError, RecursionError):
        return 0, {}
    line_end = AFTER_JSON.match(text, end)
    is_above = line_end is not None and "title" in values and text[end:].strip()
    return (line_end.end(), values) if line_end and is_above else (0, {})


def _yaml(source: str) -> Mapping[str, object]:
    try:
        values = yaml.load(source, yaml.BaseLoader)  # noqa: S506  builds nothing but texts, lists and mappings of them
    except (yaml.YAMLError, ValueError, RecursionError):
        return _pairs(source)
    return values if isinstance(values, dict) else {}


def _pairs(source: str) -> dict[str, object]:
    """Return the fields of YAML that cannot be read as a whole, each read alone, or else as it is written."""
    values: dict[str, object] = {}
    for part in FIELD.split(source.replace("\r\n", "\n").replace("\r", "\n")):
        try:
            alone = yaml.load(part.replace("\t", "  "), yaml.BaseLoader)  # noqa: S506  as above
        except (yaml.YAMLError, ValueError, RecursionError):
            alone = dict(PAIR.findall(part))
        values |= alone if isinstance(alone, dict) else {}
    return values


def _toml(source: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError):
        return {}


def _text(value: object) -> str:
    """Return a value on one line; nothing for values that are no text."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float | date) else ""
    return "" if text in NOTHING else text


def _tags_in(values: Mapping[str, object]) -> object:
    """Return the tags: Zola has them among its taxonomies, and Obsidian also has a single `tag`."""
    taxonomies = values.get("taxonomies")
    inner = taxonomies.get("tags") if isinstance(taxonomies, dict) else None
    return values.get("tags") or inner or values.get("tag")


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a list, or of a text with commas or `#`, without the `#` that some programs write."""
    each = value if isinstance(value, list) else SEPARATOR.split(_text(value).strip("[]"))
    each = [tag.get("label") if isinstance(tag, dict) else tag for tag in each]
    return tuple(dict.fromkeys(filter(None, (_text(tag).strip("\"'").lstrip("#").strip() for tag in each))))


def _date(value: object) -> str | None:
    """Return a date or time in ISO 8601; without a time zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(re.sub(r"\s+(?=[+-]\d)", "", _text(value)))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
