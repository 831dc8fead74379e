"""Limits and checks for arguments. Each check returns the value or raises an error that says what to send instead."""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from vector_memory.errors import ValidationError

C = TypeVar("C", bound=StrEnum)

MAX_CONTENT = 500_000
MAX_CONTENT_BYTES = 4 * MAX_CONTENT + 3
"""Of content in UTF-8, with a byte order mark."""
MAX_IDENTIFIER = 200
MAX_TITLE = 500
MAX_DESCRIPTION = 5_000
MAX_QUERY = 10_000
MAX_TAGS = 20
MAX_IDS = 100
MAX_TAG = 100
MAX_METADATA = 20_000
MAX_JSON_DEPTH = 32
MAX_LIMIT = 100
MAX_OFFSET = 10_000
MIN_TOKENS = 200
# JavaScript and many models write whole numbers as 1.0.
ITERATION = re.compile(r"[vV]?([0-9]{1,9})(?:\.0)?")
IDENTIFIER = re.compile(r"([0-9]{1,18})(?:\.0)?")
LARGEST = 10**18

MAX_NOTE = 10_000
"""Maximum number of characters of a tagged memory."""


def check_text(name: str, value: object, maximum: int) -> str:
    """Return `value` if it is text of 1 to `maximum` characters that UTF-8 can encode. Raises ValidationError."""
    if not isinstance(value, str):
        raise ValidationError(f"{name} must be a string.")
    if not value.strip():
        raise ValidationError(f"{name} must not be empty: send 1 to {maximum:,} characters.")
    if len(value) > maximum:
        raise ValidationError(f"{name} is {len(value):,} characters long: send at most {maximum:,}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"{name} contains a lone surrogate at character {error.start:,}: send text that UTF-8 can encode."
        ) from None
    return value


def check_label(name: str, value: object, maximum: int) -> str:
    """Like `check_text`, for stored texts: without NUL, which not every database can store."""
    label = check_text(name, value, maximum)
    if "\0" in label:
        raise ValidationError(f"{name} contains the character NUL: remove it, or send U+FFFD in its place.")
    return label


def check_optional_label(name: str, value: object, maximum: int) -> str | None:
    """Like `check_label`, but allow None; the error for an empty text says to omit it."""
    if isinstance(value, str) and not value.strip():
        raise ValidationError(f"{name} must not be empty: omit it, or send 1 to {maximum:,} characters.")
    return None if value is None else check_label(name, value, maximum)


def as_title(text: str) -> str | None:
    """Return a text as a title that `check_label` accepts; None if nothing is left of it."""
    return text.replace("\0", "").strip()[:MAX_TITLE].strip() or None


def check_range(name: str, value: object, minimum: int, maximum: int) -> int:
    """Return `value` if it is an integer in the range. Raises ValidationError."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        allowed = f"of at least {minimum:,}" if maximum == LARGEST else f"from {minimum:,} to {maximum:,}"
        raise ValidationError(f"{name} must be an integer {allowed}.")
    return value


def parse_choice(name: str, value: str, choices: type[C]) -> C:
    """Parse one of several choices from its wire name."""
    try:
        return choices(value)
    except ValueError:
        raise ValidationError(f"{name} must be one of {', '.join(choices)}.") from None


def digits(value: object) -> str:
    """Return a whole number of up to 18 digits as a string; empty for any other value."""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST else ""


def parse_iteration(value: str | float) -> int:
    """Parse a session iteration: `"v2"`, `"2"`, `2` and `2.0` all mean 2."""
    match = ITERATION.fullmatch(value if isinstance(value, str) else digits(value))
    if match is None:
        raise ValidationError('session_iter must be a number such as 2, "2" or "v2".')
    return int(match[1])


def parse_id(name: str, value: str | float) -> int:
    """Parse the id of a memory or chunk: an integer, or a string of digits."""
    match = IDENTIFIER.fullmatch(value.strip() if isinstance(value, str) else digits(value))
    if match is None and isinstance(value, str) and value.strip().endswith(".md"):
        raise ValidationError(f"{name} must be an integer: a memory file is read by its path with memory_get.")
    if match is None:
        raise ValidationError(f"{name} must be an integer returned by a store or search, for example 42.")
    return int(match[1])


def parse_ids(name: str, value: Sequence[str | int] | None) -> tuple[int, ...]:
    """Return ids without duplicates, in order. Raises ValidationError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > MAX_IDS:
        raise ValidationError(f"{name} must be a list of at most {MAX_IDS} ids, for example [42].")
    return tuple(dict.fromkeys(parse_id(name, each) for each in value))


def check_tags(value: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tags without duplicates, in order. Raises ValidationError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValidationError('tags must be a list of strings, for example ["database", "api"].')
    if len(value) > MAX_TAGS:
        raise ValidationError(f"tags has {len(value):,} entries: send at most {MAX_TAGS}.")
    return tuple(dict.fromkeys(check_label("each tag", tag, MAX_TAG) for tag in value))


MAX_SOURCES, MAX_SOURCE = 20, 500

WITHOUT_CASE = re.compile(r"\A(?:https?://[^/?#]*|memory:)", re.IGNORECASE)
"""Matches the part of a source in which case has no meaning."""


def as_source(text: str) -> str:
    """Return a source without spaces around it, as others name it who write a scheme or host in another case."""
    return WITHOUT_CASE.sub(lambda found: found[0].lower(), text.strip())


def check_sources(value: Sequence[str] | None) -> list[str]:
    """Return what a memory was derived from, without duplicates, in order. Raises ValidationError."""
    if not isinstance(value or [], list | tuple):
        raise ValidationError('sources must be a list of strings, for example ["https://example.org/", "memory:12"].')
    if len(value or ()) > MAX_SOURCES:
        raise ValidationError(f"sources has {len(value or ()):,} entries: send at most {MAX_SOURCES}.")
    return list(dict.fromkeys(as_source(check_label("each source", one, MAX_SOURCE)) for one in value or ()))


NOT_JSON = (
    "metadata must contain only JSON values: strings, numbers, true, false, null, lists, and objects with strings as "
    "keys."
)


def check_metadata(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metadata as a plain dict that JSON can represent. Raises ValidationError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValidationError('metadata must be an object, for example {"author": "me"}.')
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
        levels = depth(value)
    except (TypeError, ValueError, RecursionError):
        raise ValidationError(NOT_JSON) from None
    if levels > MAX_JSON_DEPTH:
        raise ValidationError(f"metadata is nested too deeply: send at most {MAX_JSON_DEPTH} levels.")
    if len(text) > MAX_METADATA:
        raise ValidationError(f"metadata is {len(text):,} characters long as JSON: send at most {MAX_METADATA:,}.")
    if json.loads(text) != value:  # numeric keys and tuples would change
        raise ValidationError(NOT_JSON)
    return dict(value)


def depth(value: object) -> int:
    """Return the nesting depth of lists and objects."""
    parts = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(depth, parts), default=0) if isinstance(parts, list) else 0


def with_facts(metadata: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Add parameters to the metadata. Raises ValidationError if they contradict it."""
    for name, fact in facts.items():
        if metadata.get(name, fact) != fact:
            raise ValidationError(f"metadata contradicts the parameter {name}: send {name} as a parameter only.")
    return metadata | facts
