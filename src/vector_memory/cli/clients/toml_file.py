"""Edits one table of a TOML file, `[section.name]`; comments, order and every other character stay."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from vector_memory.errors import ConfigurationError

HEADER = re.compile(r"\s*\[")
NOT_A_STATEMENT = re.compile(r"\s*(#.*)?$")


def entry(text: str, section: str, name: str) -> dict[str, Any] | None:
    """Return the table `section.name`. Raises ConfigurationError for text that is not TOML."""
    found = table(_tables_in(text), section).get(name)
    return dict(found) if isinstance(found, dict) else None


def table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table; an empty one if there is none. Raises ConfigurationError if it is something else."""
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f'"{name}" must be a table')
    return found


def put(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with this table added; in a table that is there, only keys that differ are written."""
    newline = "\r\n" if "\r\n" in text else "\n"
    there = entry(text, section, name) or {}
    statements = [f"{line}{newline}" for line in _statements(value, there)]
    lines = text.splitlines(keepends=True)
    block = _block(lines, (section, name))
    if block is None:
        end = newline if text and not text.endswith("\n") else ""
        gap = newline if text.strip() else ""
        changed = f"{text}{end}{gap}[{section}.{name}]{newline}{''.join(statements)}"
    else:
        first, _ = block
        kept = list(_without({key for key in there if key not in value or there[key] != value[key]}, lines, block))
        changed = "".join([*lines[: first + 1], *statements, *kept, *lines[block[1] :]])
    before = _tables_in(text)
    _require_same(changed, before | {section: before.get(section, {}) | {name: dict(value)}})
    return changed


def remove(text: str, section: str, name: str, _original: str = "") -> str:
    """Return the text without this table and the tables below it."""
    return text if entry(text, section, name) is None else without_table(text, section, name)


def without_table(text: str, *path: str) -> str:
    """Return the text without a table that it holds, and without the tables below that."""
    lines = text.splitlines(keepends=True)
    first, end = _block(lines, path) or (0, 0)
    if first and not lines[first - 1].strip():
        first -= 1
    changed = "".join([*lines[:first], *lines[end:]])
    _require_same(changed, _less(_tables_in(text), *path))
    return changed


def by_hand(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return what to tell a user whose file cannot be edited."""
    if _can_be_read(text) and entry(text, section, name) is not None:
        return f"remove {name} from {section}, and run the command again."
    if _can_be_read(text) and not _can_be_read(f"{text}\n[{section}.{name}]\n"):
        return f"put this between the braces of {section}:\n\n{name} = {{ {', '.join(_statements(value, {}))} }}"
    return "put this into the file:\n\n" + "\n".join([f"[{section}.{name}]", *_statements(value, {})])


def _tables_in(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigurationError("tables and lists are nested too deeply") from None
    except ValueError as error:  # also for a number of thousands of digits
        raise ConfigurationError(str(error)) from None


def _require_same(changed: str, expected: dict[str, Any]) -> None:
    if not _can_be_read(changed) or _filled(tomllib.loads(changed)) != _filled(expected):
        raise ConfigurationError("the entry for this server cannot be edited alone, because of the way it is written")


def _can_be_read(text: str) -> bool:
    try:
        _tables_in(text)
    except ConfigurationError:
        return False
    return True


def _filled(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables without empty ones: a table is there if it has a header, or one below it has."""
    parts = ((key, _filled(value) if isinstance(value, dict) else value) for key, value in tables.items())
    return {key: value for key, value in parts if value != {}}


def _less(tables: Mapping[str, Any], first: str, *more: str) -> dict[str, Any]:
    """Return the tables without the one at this path."""
    rest = {key: value for key, value in tables.items() if key != first}
    return rest | {first: _less(tables[first], *more)} if more else rest


def _statements(value: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return the lines for the keys that are not there with this value. TOML writes texts and lists as JSON does."""
    return [f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in value.items() if there.get(key) != one]


def _block(lines: list[str], path: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the first line of a table, and the line after it and its sub-tables; None if it has no header."""
    keys = (re.escape(key) for key in path)
    dotted = r"\s*\.\s*".join(rf"""(?:"{key}"|'{key}'|{key})""" for key in keys)
    header = re.compile(rf"\s*\[\s*{dotted}\s*\]")
    below = re.compile(rf"\s*\[\[?\s*{dotted}\s*\.")
    first = next((number for number, line in enumerate(lines) if header.match(line)), None)
    if first is None:
        return None
    end = first + 1
    while end < len(lines) and (not HEADER.match(lines[end]) or below.match(lines[end])):
        end += 1
    # What is written above the next header belongs to that.
    while end < len(lines) and end > first + 1 and NOT_A_STATEMENT.match(lines[end - 1]):
        end -= 1
    return first, end


def _without(keys: set[str], lines: list[str], block: tuple[int, int]) -> Iterator[str]:
    """Yield the lines of a table below its header, without the statements that set these keys."""
    number, end = block[0] + 1, block[1]
    while number < end:
        start, number = number, number + 1
        if HEADER.match(lines[start]):
            yield from lines[start:end]
            return
        while number < end and not _can_be_read("".join(lines[start:number])):
            number += 1
        if not keys.intersection(_keys("".join(lines[start:number]))):
            yield from lines[start:number]


def _keys(statement: str) -> set[str]:
    return set(tomllib.loads(statement)) if _can_be_read(statement) else set()
