"""The command line: flags and variables, the commands, what they print, and the configuration of clients."""

from vector_memory.server import environment  # noqa: F401 - must come before fastmcp, pydantic and numpy
