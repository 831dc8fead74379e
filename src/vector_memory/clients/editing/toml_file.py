"""Edits one table of a TOML file, `[section.name]`; comments, order and every other character stay."""

import re
import tomllib
from collections.abc import Mapping
from math import nan
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import Table, Whitespace

from vector_memory.errors import ConfigurationError

REMARKS_AT_THE_END = re.compile(r"^\s*+(?:#.*+\s*+)*\Z", re.MULTILINE)


def entry(text: str, section: str, name: str) -> dict[str, Any] | None:
    """Return the table `section.name`. Raises ConfigurationError for text that is not TOML."""
    found = _table(_content_of(text), section).get(name)
    return dict(found) if isinstance(found, dict) else None


def put(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with this table; if one with the same keys is there, only values that differ are written."""
    content = _content_of(text)
    held = _table(content, section)
    there = entry(text, section, name)
    if there is not None and there.keys() == value.keys():
        document = tomlkit.parse(text)
        tables: Any = document[section]
        tables[name].update({key: one for key, one in value.items() if there[key] != one})
        changed = document.as_string()
    else:
        changed = _with_new(remove(text, section, name), section, name, value)
    return _checked(text, changed, content | {section: held | {name: dict(value)}})


def remove(text: str, section: str, name: str, _original: str = "") -> str:
    """Return the text without this table and the tables below it."""
    return text if entry(text, section, name) is None else without_table(text, section, name)


def without_table(text: str, *path: str) -> str:
    """Return the text without a table that it holds, and without the tables below that."""
    document = tomlkit.parse(text)
    _cut_out(document, *path)
    left = document.as_string().rstrip()
    return _checked(text, f"{left}\n" if left else "", _less(_content_of(text), *path))


def _content_of(text: str) -> dict[str, Any]:
    try:
        # One object for every NaN: it does not equal itself, but a dictionary equals one with the same object.
        return tomllib.loads(text, parse_float=lambda number: nan if "nan" in number else float(number))
    except RecursionError:
        raise ConfigurationError("tables and lists are nested too deeply") from None
    except ValueError as error:  # also for a number of thousands of digits
        raise ConfigurationError(str(error)) from None


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f'"{name}" must be a table')
    return found


def _with_new(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with a table at its end, or in its section if that can have no table elsewhere."""
    end = "\n" if text and not text.endswith("\n") else ""
    gap = "\n" if text.strip() else ""
    appended = f"{text}{end}{gap}{tomlkit.dumps({section: {name: value}})}"
    try:
        _content_of(appended)
    except ConfigurationError:
        document = tomlkit.parse(text)
        tables: Any = document[section]
        tables[name] = dict(value)
        return document.as_string()
    return appended


def _cut_out(container: Container, name: str, *below: str) -> None:
    """Take out a table, but leave the remarks at its end: they are about the next one."""
    for place, (key, item) in enumerate(container.body):
        if key is None or key.key != name:
            continue
        if below:
            _cut_out(item.value, *below)
        elif isinstance(item, Table):
            remarks = REMARKS_AT_THE_END.search(item.as_string())
            container.body[place] = (None, Whitespace(remarks[0].lstrip() if remarks else ""))
        else:
            container.remove(key)


def _checked(text: str, changed: str, expected: Mapping[str, Any]) -> str:
    """Return a changed text with the line ends it had. Raises ConfigurationError if it has not the expected content."""
    if _filled(_content_of(changed)) != _filled(expected):
        raise ConfigurationError("the entry for this server cannot be edited alone, because of the way it is written")
    return re.sub(r"(?<!\r)\n", "\r\n", changed) if "\r\n" in text else changed


def _filled(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables without empty ones: a table is there if it has a header, or one below it has."""
    parts = ((key, _filled(value) if isinstance(value, dict) else value) for key, value in tables.items())
    return {key: value for key, value in parts if value != {}}


def _less(tables: Mapping[str, Any], first: str, *more: str) -> dict[str, Any]:
    """Return the tables without the one at this path."""
    rest = {key: value for key, value in tables.items() if key != first}
    return rest | {first: _less(tables[first], *more)} if more else rest
