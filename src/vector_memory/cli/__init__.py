"""The command line."""

from vector_memory.server import environment  # noqa: F401 - must come before fastmcp, pydantic and numpy
