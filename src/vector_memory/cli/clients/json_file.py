"""Edits one entry of a JSON file, which may have comments and trailing commas; every other character stays."""

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

Edit = tuple[int, int, str]
"""Start and end of a part of the text, and what replaces it."""


@dataclass
class Node:
    """A value and its place in the text. Objects also have their members."""

    start: int
    end: int = 0
    value: Any = None
    members: dict[str, "Member"] = field(default_factory=dict)


@dataclass
class Member:
    """A member of an object; `comma` is the place of the comma after it."""

    start: int
    node: Node
    comma: int | None = None


def entry(text: str, section: str, name: str) -> dict[str, Any] | None:
    """Return the entry `name` in the object `section`. Raises ConfigurationError for text that is not JSON."""
    held = _section(text, section)
    found = held.members.get(name) if held else None
    return dict(found.node.value) if found and isinstance(found.node.value, dict) else None


def put(text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with this entry added, or in place of the one that is there."""
    if not text.strip("\ufeff \t\r\n"):
        return _rendered({section: {name: value}}, "  ", "", "\n") + "\n"
    root = _Parser(text).document()
    held = _section(text, section)
    if held is None:
        changed = _edited(text, _insertion(text, root, section, {name: value}))
    elif name in held.members:
        node = held.members[name].node
        changed = _edited(text, [(node.start, node.end, _as_there(text, node, value))])
    else:
        changed = _edited(text, _insertion(text, held, name, value))
    _require_same(changed, root.value | {section: (root.value.get(section) or {}) | {name: dict(value)}})
    return changed


def remove(text: str, section: str, name: str) -> str:
    """Return the text without this entry."""
    held = _section(text, section) if text.strip() else None
    if held is None or name not in held.members:
        return text
    changed = _edited(text, _removal(text, held, name))
    before = _Parser(text).document().value
    rest = {key: value for key, value in before[section].items() if key != name}
    _require_same(changed, before | {section: rest})
    return changed


def snippet(section: str, name: str, value: Mapping[str, Any]) -> str:
    """Return what to paste into an empty file."""
    return _rendered({section: {name: value}}, "  ", "", "\n")


def _section(text: str, section: str) -> Node | None:
    root = _Parser(text).document() if text.strip("\ufeff \t\r\n") else Node(0, value={})
    if not isinstance(root.value, dict):
        _refuse(text, root.start, "the file must hold an object")
    member = root.members.get(section)
    if member is not None and not isinstance(member.node.value, dict):
        _refuse(text, member.node.start, f'"{section}" must be an object')
    return member.node if member else None


def _require_same(changed: str, expected: Any) -> None:
    if _Parser(changed).document().value != expected:
        raise ConfigurationError("the part for this server cannot be changed alone, because of the way it is written")


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
        if first == "{":
            self.object(node)
        elif first == "[":
            self.array(node)
        elif first == '"':
            node.value = self.string()
        else:
            node.value = self.scalar()
        node.end = self.place
        return node

    def object(self, node: Node) -> None:
        node.value = {}
        self.place += 1
        while self.next() != "}":
            start = self.place
            if self.next() != '"':
                _refuse(self.text, self.place, "a name in double quotes is missing")
            key = self.string()
            if self.next() != ":":
                _refuse(self.text, self.place, "a colon is missing")
            self.place += 1
            member = Member(start, self.node())
            node.value[key], node.members[key] = member.node.value, member
            member.comma = self.separator("}")
        self.place += 1

    def array(self, node: Node) -> None:
        node.value = []
        self.place += 1
        while self.next() != "]":
            node.value.append(self.node().value)
            self.separator("]")
        self.place += 1

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
            _refuse(self.text, error.pos, "a text is not closed, or has a character that must be escaped")
        return str(value)

    def scalar(self) -> Any:
        word = SCALAR.match(self.text, self.place)
        try:
            value = json.loads(word[0] if word else "")
        except ValueError:  # also for a number of thousands of digits
            _refuse(self.text, self.place, "a value is missing or misspelled")
        self.place += len(word[0]) if word else 0
        return value


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, key=itemgetter(0))[::-1]:
        text = text[:start] + new + text[end:]
    return text


def _insertion(text: str, into: Node, key: str, value: Mapping[str, Any]) -> list[Edit]:
    """Return the edits that add a member at the end of an object, in the style of the file."""
    close = into.end - 1
    place = len(text[:close].rstrip())
    last = list(into.members.values())[-1] if into.members else None
    comma = [(last.node.end, last.node.end, ",")] if last and last.comma is None else []
    end = "," if last and last.comma is not None else ""
    if last and "\n" not in text[into.start : into.end]:
        return [*comma, (place, place, f' "{key}": {json.dumps(value, ensure_ascii=False)}{end}')]
    newline = "\r\n" if "\r\n" in text else "\n"
    outer, unit = _indent(text, into.start), _unit(text)
    inner = _indent(text, last.start) if last else outer + unit
    member = f'{newline}{inner}"{key}": {_rendered(value, unit, inner, newline)}{end}'
    ending = "" if "\n" in text[place:close] else newline + outer
    return [*comma, (place, place, member + ending)]


def _as_there(text: str, node: Node, value: Mapping[str, Any]) -> str:
    if "\n" not in text[node.start : node.end] and "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    return _rendered(value, _unit(text), _indent(text, node.start), "\r\n" if "\r\n" in text else "\n")


def _removal(text: str, held: Node, name: str) -> list[Edit]:
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
    return edits if inside.strip() else [(held.start, held.end, "{}")]


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
