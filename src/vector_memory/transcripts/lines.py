"""The lines of a transcript, and the checks of what is in them.

Clients change their formats. A value that is not as expected is an error with the number of its line: what a reader
does not know for certain would be stored as something that nobody said.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from vector_memory.domain.times import utc
from vector_memory.errors import ValidationError

T = TypeVar("T")
Line = dict[str, Any]

NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}


class FormatError(ValidationError):
    """A line of a transcript is not as expected. `line`: its number; `expected`: what should be there."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"Line {line:,}: expected {expected}.")
        self.line = line
        self.expected = expected


def read_lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield the lines with their numbers. A last line that the client is still writing is left out.

    Raises FormatError for a line that is not an object with a `type`, OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                if not text.endswith(b"\n"):
                    return
                raise FormatError(number, "JSON") from None
            if not isinstance(line, dict) or not isinstance(line.get("type"), str):
                raise FormatError(number, "an object with a `type`")
            yield number, line


def field(number: int, line: Line, name: str, kind: type[T]) -> T:
    """Return a field of a line. Raises FormatError unless it has this type."""
    value = line.get(name)
    if not isinstance(value, kind):
        raise FormatError(number, f"{NAMES[kind]} as `{name}`")
    return value


def time_of(number: int, line: Line) -> str:
    """Return the time of a line in the format of the memory. Raises FormatError."""
    try:
        return utc(field(number, line, "timestamp", str))
    except ValueError:
        raise FormatError(number, "a time as `timestamp`") from None


def blocks_of(number: int, message: Line) -> list[Line]:
    """Return the blocks of a message's content, which may also be one text. Raises FormatError."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = field(number, message, "content", list)
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        raise FormatError(number, "objects with a `type` in `content`")
    return blocks


def texts_of(number: int, blocks: list[Line], kinds: tuple[str, ...]) -> list[str]:
    """Return the texts of the blocks of these types. Raises FormatError."""
    return [field(number, block, "text", str) for block in blocks if block["type"] in kinds]
