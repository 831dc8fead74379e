"""Shortens answers that are too long, field by field, and marks every cut."""

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from vector_memory.results.forms import FORM

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E")

LEAST_FIELD = 40
"""Minimum length of a shortened field in bytes: ids, times and kinds are not longer."""

MARK = "…"
"""Ends a shortened value, where its type allows it."""

LEAST_MARK = 24
"""Bytes that the mark takes in a list or object."""

SHORTENED = (
    f" Shortened to fit, marked with {MARK}: {{names}}. To get the full text, send a larger max_tokens, use "
    "write_document_to_file, or run `vector-memory show ID`."
)

SHORTENABLE = (str, list, dict, BaseModel)


def noted(answer: T, names: Collection[str]) -> T:
    """Return the answer with a note on the shortened fields in its `message`, if it has one."""
    if not names or "message" not in type(answer).model_fields:
        return answer
    said = (getattr(answer, "message", None) or "") + SHORTENED.format(names=", ".join(sorted(names)))
    return answer.model_copy(update={"message": said.strip()})


def bounded(answer: T, limit: int) -> T:
    """Return an answer that is too long in at most `limit` bytes."""
    room = max(0, limit - len(SHORTENED.encode()) - LEAST_FIELD)
    slim, names = slimmed(answer, room)
    return slimmed(noted(slim, names - {"message"}), limit)[0]


def slimmed(item: T, limit: int) -> tuple[T, set[str]]:
    """Return the item in at most `limit` bytes, if possible, and the names of the shortened fields."""
    names: set[str] = set()
    if size(item) <= limit:
        return item, names
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
    """Return the start of a text, list or object in at most `room` bytes, with a mark at the cut."""
    if not isinstance(value, SHORTENABLE) or value_size(value) <= max(room, LEAST_FIELD):
        return value
    kept: Any = value
    if isinstance(value, str):
        kept = prefix(value[:room], room - value_size(MARK)) + MARK
    elif isinstance(value, BaseModel):
        kept, _ = slimmed(value, room)
    elif isinstance(value, list):
        kept = fitting_values(value, room - LEAST_MARK)
        kept += [MARK] if isinstance(value[0], str) else []
    elif isinstance(value, dict):
        items = fitting_values([{name: inner} for name, inner in value.items()], room - LEAST_MARK)
        more = len(value) - len(items)
        kept = {name: inner for item in items for name, inner in item.items()}
        # In a dict of counts a string would have the wrong type.
        kept |= {} if all(isinstance(inner, int) for inner in value.values()) else {MARK: f"{more:,} more"}
    return cast("E", kept)


def fitting_values(values: Sequence[Any], room: int) -> list[Any]:
    """Return as many of the first values as fit together."""
    totals = accumulate(value_size(value) + 1 for value in values)
    return [value for value, total in zip(values, totals, strict=True) if total <= room]


def value_size(value: object) -> int:
    """Return the size of a value in an answer, in bytes."""
    return len(to_json(value))


def size(item: BaseModel) -> int:
    """Return the size of an item in an answer of the current form, in bytes."""
    return value_size(FORM.get().measured(item))


def json_size(text: str) -> int:
    """Return the size of a text inside a JSON string, where a line end takes two bytes and a control character six."""
    return value_size(text) - 2


def prefix(text: str, allowance: int) -> str:
    """Return the start of a text that takes at most `allowance` bytes of JSON."""
    return str(from_json(to_json(text)[: max(0, allowance) + 1], allow_partial="trailing-strings"))
