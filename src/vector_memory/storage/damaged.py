"""Stored contents that contradict themselves: what every engine says of them."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from vector_memory.errors import DatabaseError

T = TypeVar("T")

DAMAGED_KEYWORDS = "The keyword index is damaged: run `vector-memory doctor --fix`."
WRONG_TYPE = (
    "The database contains a value of the wrong type: run `vector-memory doctor --fix`, or restore a backup if "
    "that does not help."
)


class DamagedError(DatabaseError):
    """The stored contents contradict the schema."""


def require_all(found: Mapping[int, T], ids: Iterable[int]) -> Mapping[int, T]:
    """Return what was found of memories with words. Raises DamagedError if one of them is gone."""
    if not found.keys() >= set(ids):
        raise DamagedError(DAMAGED_KEYWORDS)
    return found
