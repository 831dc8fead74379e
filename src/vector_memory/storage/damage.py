"""Stored contents that contradict themselves: what every engine says of them."""

from vector_memory.errors import DatabaseError

DAMAGED_KEYWORDS = "The keyword index is damaged: run `vector-memory doctor --fix`."


class DamagedError(DatabaseError):
    """The stored contents contradict the schema."""
