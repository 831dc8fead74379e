"""The lines of a transcript, and the checks of what is in them.

Clients change their formats, and a file can be torn. A line that is not as expected is left out and named by its
number: a reader that guesses would store words that were never said.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from vector_memory.domain.times import EPOCH, utc
from vector_memory.domain.user_files import MAX_BYTES, opened, read_file
from vector_memory.errors import ValidationError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
Line = dict[str, Any]

NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "a list", int: "a number"}

COMPRESSED = ".zst"
"""How the name of a compressed transcript ends."""


class FormatError(ValidationError):
    """A line of a transcript is not as expected. `line`: its number; `expected`: what should be there."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"Line {line:,}: expected {expected}.")
        self.line = line
        self.expected = expected


def read_lines(path: Path, *, are_typed: bool = True) -> Iterator[tuple[int, Line | FormatError]]:
    """Yield the lines with their numbers, and an error for each that is not an object, with a `type` if they have one.

    A last line that the client is still writing is left out. Raises OSError if the file cannot be read.
    """
    number = 0
    with opened_transcript(path) as file:
        try:
            for number, text in enumerate(file, start=1):
                if (line := parsed(number, text, are_typed=are_typed)) is not None:
                    yield number, line
        except (zstd.ZstdError, EOFError):
            yield number + 1, FormatError(number + 1, "compressed data")


@contextmanager
def opened_transcript(path: Path) -> Iterator[Iterator[bytes]]:
    """Open a transcript, which may be compressed."""
    with opened(path) as file, zstd.open(file) if path.suffix == COMPRESSED else nullcontext(file) as lines:
        yield iter(partial(lines.readline, MAX_BYTES), b"")  # a longer line is not JSON


def parsed(number: int, text: bytes, *, are_typed: bool = True) -> Line | FormatError | None:
    """Return a line; None if it is blank, or not written to its end. A crash can leave NUL characters before it."""
    content = text.lstrip(b"\0")
    if not text.strip():
        return None
    try:
        line = json.loads(content)
    except (ValueError, RecursionError):
        return FormatError(number, "JSON") if text.endswith(b"\n") else None
    if not isinstance(line, dict) or (are_typed and not isinstance(line.get("type"), str)):
        return FormatError(number, "an object with a `type`" if are_typed else "an object")
    return line


def read_object(path: Path) -> Line:
    """Return the object that a file holds. Raises FormatError, OSError: also for a file that is too long."""
    try:
        found = json.loads(read_file(path))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FormatError(1, f"an object in `{path.name}`")
    return found


def heard(
    lines: Iterable[tuple[int, Line | FormatError]], hear: Callable[[int, Line], None], miss: Callable[[], None]
) -> list[FormatError]:
    """Hand each line on; return the errors of those that cannot be read, each of which `miss` is told of."""
    unread = []
    for number, line in lines:
        try:
            hear(number, _object(number, line))
        except FormatError as error:
            unread.append(error)
            miss()
    return unread


def _object(number: int, line: object) -> Line:
    if isinstance(line, FormatError):
        raise line
    if not isinstance(line, dict):
        raise FormatError(number, "an object")
    return line


def field_of(number: int, line: Line, name: str, kind: type[T]) -> T:
    """Return a field of a line, or of an object in it. Raises FormatError unless it has this type."""
    value = line.get(name) if isinstance(line, dict) else None
    if not isinstance(value, kind):
        raise FormatError(number, f"{NAMES[kind]} as `{name}`")
    return value


def objects_in(value: object) -> list[Line]:
    """Return the objects in a list; none if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def time_of(number: int, line: Line) -> str:
    """Return the time of a line in the format of the memory. Raises FormatError."""
    try:
        return utc(field_of(number, line, "timestamp", str))
    except ValueError:
        raise FormatError(number, "a time as `timestamp`") from None


def time_in_ms(number: int, milliseconds: object) -> str:
    """Return a time in milliseconds since 1970 in the format of the memory. Raises FormatError."""
    try:
        return utc((EPOCH + timedelta(milliseconds=float(str(milliseconds)))).isoformat())
    except (ValueError, OverflowError):
        raise FormatError(number, "a time in milliseconds") from None


def content_blocks(number: int, content: object) -> list[Line]:
    """Return the blocks of a content, which may also be one text. Raises FormatError."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise FormatError(number, "a list as `content`")
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content):
        raise FormatError(number, "objects with a `type` in `content`")
    return content


def block_texts(number: int, blocks: list[Line], kinds: tuple[str, ...]) -> list[str]:
    """Return the texts of the blocks of these types. Raises FormatError."""
    return [field_of(number, block, "text", str) for block in blocks if block["type"] in kinds]


@dataclass(slots=True)
class Branches:
    """The lines of a conversation, by their ids, in the order of the file."""

    _order: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _before: list[str | None] = field(default_factory=list)
    _prompts: set[str] = field(default_factory=set)
    _first: set[str] = field(default_factory=set)
    _is_linked: bool = False

    def add(self, line_id: str, before: str | None, *, is_prompt: bool, is_first: bool) -> None:
        """Add a line. `before`: the id of the one before it. `is_first`: it says that there is none."""
        if line_id in self._places:
            return
        self._is_linked |= before in self._places
        self._places[line_id] = len(self._order)
        self._order.append(line_id)
        self._before.append(before)
        if is_prompt:
            self._prompts.add(line_id)
            if is_first:
                self._first.add(line_id)

    def left(self) -> set[str]:
        """Return the ids of the lines that the user went back from.

        Only a prompt begins a branch: other lines that nothing follows are those of tools that ran at the same time.
        """
        kept = self._kept()
        left: set[str] = set()
        for place, line_id in enumerate(self._order):
            if place not in kept:
                before = self._place_before(place)
                is_after_left = before is not None and self._order[before] in left
                if is_after_left or line_id in self._prompts:
                    left.add(line_id)
        return left

    def _kept(self) -> set[int]:
        """Return the places of the last line and of those before it."""
        kept: set[int] = set()
        place = len(self._order) - 1 if self._order else None
        while place is not None:
            kept.add(place)
            place = self._place_before(place)
        return kept

    def _place_before(self, place: int) -> int | None:
        """Return the place of the line before a line: the one that it names, or else the one above it."""
        if self._is_linked and self._order[place] in self._first:
            return None
        before = self._places.get(self._before[place] or "")
        if before is not None and before < place:
            return before
        return place - 1 if place else None
