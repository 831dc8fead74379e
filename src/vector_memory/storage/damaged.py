"""Stored contents that contradict themselves: what every engine says of them."""

from vector_memory.errors import DatabaseError

DAMAGED_KEYWORDS = "The keyword index is damaged: run `vector-memory doctor --fix`."
WRONG_TYPE = (
    "The database contains a value of the wrong type: run `vector-memory doctor --fix`, or restore a backup if "
    "that does not help."
)


class DamagedError(DatabaseError):
    """The stored contents contradict the schema."""
