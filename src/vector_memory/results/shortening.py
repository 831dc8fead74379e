"""Shortens what is too long for an answer, field by field, and marks it: nothing is cut without saying so."""

import json
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import to_json

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E")

LEAST_FIELD = 40
"""Bytes that a field is never shortened below: ids, times and names of kinds are not longer."""

MARK = "…"
"""Stands at the end of what was shortened, where its type allows it."""

LEAST_MARK = 24
"""Bytes that the mark takes in a list or object."""

SHORTENED = (
    f" Shortened to fit, marked with {MARK}: {{names}}. For all of it send a larger max_tokens, use "
    "write_document_to_file, or run `vector-memory show ID`."
)

SHORTENABLE = (str, list, dict, BaseModel)


def noted(answer: T, names: Collection[str]) -> T:
    """Return the answer with a sentence in its `message`, if it has one, on the fields that are shortened."""
    if not names or "message" not in type(answer).model_fields:
        return answer
    said = (getattr(answer, "message", None) or "") + SHORTENED.format(names=", ".join(sorted(names)))
    return answer.model_copy(update={"message": said.strip()})


def bounded(answer: T, limit: int) -> T:
    """Return the answer in at most `limit` bytes: the one place that every answer passes before it leaves."""
    if size(answer) <= limit:
        return answer
    room = max(0, limit - len(SHORTENED.encode()) - LEAST_FIELD)
    slim, names = slimmed(answer, room)
    return slimmed(noted(slim, names - {"message"}), limit)[0]


def slimmed(item: T, limit: int) -> tuple[T, set[str]]:
    """Return the item in at most `limit` bytes, as far as that can be, and the names of the fields it shortened."""
    names: set[str] = set()
    left = {name: (value_size(value), value) for name, value in item if isinstance(value, SHORTENABLE)}
    while left and (excess := size(item) - limit) > 0:
        name = max(left, key=lambda name: left[name][0])
        taken, value = left.pop(name)
        if taken <= LEAST_FIELD:
            break
        item = item.model_copy(update={name: clipped(value, max(LEAST_FIELD, taken - excess))})
        names.add(name)
    return item, names


def clipped(value: E, room: int) -> E:
    """Return the beginning of a text, list or object that takes at most `room` bytes, marked where it ends."""
    if not isinstance(value, SHORTENABLE) or value_size(value) <= max(room, LEAST_FIELD):
        return value
    kept: Any = value
    if isinstance(value, str):
        kept = prefix(value[:room], room - len(json.dumps(MARK, ensure_ascii=False).encode())) + MARK
    elif isinstance(value, BaseModel):
        kept, _ = slimmed(value, room)
    elif isinstance(value, list):
        kept = fitting_values(value, room - LEAST_MARK)
        kept += [MARK] if isinstance(value[0], str) else []
    elif isinstance(value, dict):
        items = fitting_values([{name: inner} for name, inner in value.items()], room - LEAST_MARK)
        more = len(value) - len(items)
        kept = {name: inner for item in items for name, inner in item.items()}
        # Among counts a text would be of another type.
        kept |= {} if all(isinstance(inner, int) for inner in value.values()) else {MARK: f"{more:,} more"}
    return cast("E", kept)


def fitting_values(values: Sequence[Any], room: int) -> list[Any]:
    """Return the first of the values that fit together."""
    totals = accumulate(value_size(value) + 1 for value in values)
    return [value for value, total in zip(values, totals, strict=True) if total <= room]


def value_size(value: object) -> int:
    """Return the bytes that a value takes in an answer."""
    return len(to_json(value))


def size(item: BaseModel) -> int:
    """Return the bytes an item takes in an answer."""
    return len(item.model_dump_json().encode())


def json_size(text: str) -> int:
    """Return the bytes a text takes inside a JSON string, where a line end takes two and a control character six."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def prefix(text: str, allowance: int) -> str:
    """Return as much of the beginning of a text as takes at most `allowance` bytes of JSON."""
    if json_size(text) <= allowance:
        return text
    return text[: max(0, bisect_right(range(len(text)), allowance, key=lambda end: json_size(text[:end])) - 1)]
