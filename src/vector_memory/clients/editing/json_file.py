"""Edits values of a JSON file, which may have comments and trailing commas; every other character stays."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # it is public in Python, but not in its type hints
from operator import itemgetter
from typing import Any, NoReturn

from vector_memory.errors import ConfigurationError

TRIVIA = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
SCALAR = re.compile(r"[^\s,:\]}\[{/\"]+")
BLANK = "\ufeff \t\r\n"

Edit = tuple[int, int, str]
"""Start and end of a part of the text, and what replaces it."""


@dataclass
class Node:
    """A value and its place in the text. Objects and arrays also have their members, by names or numbers."""

    start: int
    end: int = 0
    value: Any = None
    members: dict[Any, "Member"] = field(default_factory=dict)


@dataclass
class Member:
    """A member of an object or array; `comma` is the place of the comma after it."""

    start: int
    node: Node
    comma: int | None = None


def content_of(text: str) -> dict[str, Any]:
    """Return the object that a file holds; an empty one for an empty file. Raises ConfigurationError for mistakes."""
    if not text.strip(BLANK):
        return {}
    root = _Parser(text).document()
    if not isinstance(root.value, dict):
        _refuse(text, root.start, "the file must hold an object")
    return root.value


def load_plain(text: str) -> Any:
    """Return what a text of JSON without comments holds; an empty object for an empty text. Raises ValueError."""
    return json.loads(text.lstrip("\ufeff") if text.strip(BLANK) else "{}")


def require_plain(text: str) -> None:
    """Raise ConfigurationError if a text that `content_of` accepts has comments or trailing commas."""
    try:
        load_plain(text)
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, "this client does not read files with comments or trailing commas")


def rewritten(text: str, wanted: Mapping[str, Any]) -> str:
    """Return the text with this content: what does not differ stays as it is written."""
    if not text.strip(BLANK):
        return _rendered(wanted, "  ", "", "\n") + "\n"
    while edits := _next_edits(text, _Parser(text).document(), wanted):
        text = _edited(text, edits)
    return text


def entry(text: str, section: str, name: str) -> dict[str, Any] | None:
    """Return the entry `name` in the object `section`. Raises ConfigurationError for text that is not JSON."""
    found = _section(text, section).get(name)
    return dict(found) if isinstance(found, dict) else None


def put(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with this entry added, or in place of the one that is there."""
    return rewritten(text, content_of(text) | {section: _section(text, section) | {name: dict(value)}})


def remove(text: str, section: str, name: str, original: str = "") -> str:
    """Return the text without this entry, and without the section if that is empty and the original had none."""
    held = _section(text, section)
    if name not in held:
        return text
    content = content_of(text) | {section: {key: value for key, value in held.items() if key != name}}
    if not content[section] and section not in content_of(original):
        del content[section]
    return rewritten(text, content)


def _section(text: str, section: str) -> dict[str, Any]:
    held = content_of(text).get(section, {})
    if not isinstance(held, dict):
        _refuse(text, _Parser(text).document().members[section].node.start, f'"{section}" must be an object')
    return held


def _refuse(text: str, place: int, reason: str) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    raise ConfigurationError(f"line {line}, column {column}: {reason}")


class _Parser:
    """Reads JSON with comments and notes where each value is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def document(self) -> Node:
        try:
            node = self.node()
        except RecursionError:
            _refuse(self.text, self.place, "objects and lists are nested too deeply")
        if self.next():
            _refuse(self.text, self.place, "nothing may follow the end of the object")
        return node

    def next(self) -> str:
        """Skip white space and comments; return the next character, or "" at the end."""
        skipped = TRIVIA.match(self.text, self.place)
        self.place = skipped.end() if skipped else self.place
        return self.text[self.place : self.place + 1]

    def node(self) -> Node:
        first = self.next()
        node = Node(self.place)
        if first in ("{", "["):
            self.container(node, "}" if first == "{" else "]")
        elif first == '"':
            node.value = self.string()
        else:
            node.value = self.scalar()
        node.end = self.place
        return node

    def container(self, node: Node, closing: str) -> None:
        self.place += 1
        while self.next() != closing:
            start = self.place
            key = self.key(node) if closing == "}" else len(node.members)
            node.members[key] = member = Member(start, self.node())
            member.comma = self.separator(closing)
        self.place += 1
        values = {key: member.node.value for key, member in node.members.items()}
        node.value = values if closing == "}" else list(values.values())

    def key(self, node: Node) -> str:
        """Read the name of a member and the colon behind it."""
        start = self.place
        if self.next() != '"':
            _refuse(self.text, self.place, "a name in double quotes is missing")
        key = self.string()
        if key in node.members:
            _refuse(self.text, start, f'"{key}" appears twice')
        if self.next() != ":":
            _refuse(self.text, self.place, "a colon is missing")
        self.place += 1
        return key

    def separator(self, closing: str) -> int | None:
        """Skip a comma and return its place; None before the closing bracket."""
        found = self.next()
        if found == ",":
            self.place += 1
            return self.place - 1
        if found != closing:
            _refuse(self.text, self.place, f"a comma or {closing} is missing")
        return None

    def string(self) -> str:
        try:
            value, self.place = scanstring(self.text, self.place + 1)
        except json.JSONDecodeError as error:
            _refuse(self.text, error.pos, "a string is not closed, or has a character that must be escaped")
        return str(value)

    def scalar(self) -> Any:
        word = SCALAR.match(self.text, self.place)
        try:
            value = json.loads(word[0] if word else "", parse_constant=int)
        except ValueError:  # also for NaN, which is no integer, and for a number of thousands of digits
            _refuse(self.text, self.place, "a value is missing or misspelled")
        self.place += len(word[0]) if word else 0
        return value


def _next_edits(text: str, node: Node, wanted: Any) -> list[Edit]:
    """Return the edits of one step from the value that is there to the wanted one; none if they are equal."""
    there = node.value
    if there == wanted:
        return []
    if isinstance(there, dict) and isinstance(wanted, dict):
        ours: dict[Any, Any] = wanted
        gone = [name for name in there if name not in wanted]
    elif isinstance(there, list) and isinstance(wanted, list):
        ours = dict(enumerate(wanted))
        is_longer = len(there) > len(wanted)
        gone = [place for place, one in enumerate(there) if is_longer and [one] != wanted[place : place + 1]]
    else:
        return [(node.start, node.end, _as_there(text, node, wanted))]
    if gone:
        return _removal(text, node, gone[0])
    for key, value in ours.items():
        if key not in node.members:
            return _insertion(text, node, key, value)
        if edits := _next_edits(text, node.members[key].node, value):
            return edits
    return []


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, key=itemgetter(0))[::-1]:
        text = text[:start] + new + text[end:]
    return text


def _insertion(text: str, into: Node, key: str | int, value: Any) -> list[Edit]:
    """Return the edits that add a member at the end of an object or array, in the style of the file."""
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    close = into.end - 1
    place = len(text[:close].rstrip())
    last = list(into.members.values())[-1] if into.members else None
    comma = [(last.node.end, last.node.end, ",")] if last and last.comma is None else []
    end = "," if last and last.comma is not None else ""
    if "\n" not in (text[into.start : into.end] if last else text.strip()):
        space = " " if last else ""
        return [*comma, (place, place, f"{space}{name}{json.dumps(value, ensure_ascii=False)}{end}")]
    newline = "\r\n" if "\r\n" in text else "\n"
    outer, unit = _indent(text, into.start), _unit(text)
    inner = _indent(text, last.start) if last else outer + unit
    member = f"{newline}{inner}{name}{_rendered(value, unit, inner, newline)}{end}"
    ending = "" if "\n" in text[place:close] else newline + outer
    return [*comma, (place, place, member + ending)]


def _as_there(text: str, node: Node, value: Any) -> str:
    if "\n" not in text[node.start : node.end] and "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    return _rendered(value, _unit(text), _indent(text, node.start), "\r\n" if "\r\n" in text else "\n")


def _removal(text: str, held: Node, name: str | int) -> list[Edit]:
    """Return the edits that remove a member, its comma, and the line it leaves empty."""
    names = list(held.members)
    number, member = names.index(name), held.members[name]
    before = text[: member.start].rstrip(" \t")
    has_own_line = before.endswith("\n")
    start = len(before.removesuffix("\n").removesuffix("\r")) if has_own_line else len(before)
    if member.comma is None:
        edits = [(start, member.node.end, "")]
        comma = held.members[names[number - 1]].comma if number else None
        edits += [(comma, comma + 1, "")] if comma is not None else []
    elif has_own_line:
        edits = [(start, member.node.end, ""), (member.comma, member.comma + 1, "")]
    else:
        after = text[member.comma + 1 :]
        spaces = len(after) - len(after.lstrip(" \t"))
        edits = [(member.start, member.comma + 1 + spaces, "")]
    inside = _edited(text[: held.end - 1], edits)[held.start + 1 :]
    empty = "{}" if isinstance(held.value, dict) else "[]"
    return edits if inside.strip() else [(held.start, held.end, empty)]


def _rendered(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _indent(text: str, place: int) -> str:
    """Return the white space at the beginning of the line of a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the indentation of the first line that has any."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "
