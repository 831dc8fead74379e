"""The command line: flags and variables, the commands, what they print, and the configuration of clients."""

import vector_memory.server  # noqa: F401 - must come before fastmcp, pydantic and numpy
