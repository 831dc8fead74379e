"""The MCP server: tools, prompts and resources over the facade."""

from vector_memory.server import environment  # noqa: F401 - must come before fastmcp, pydantic and numpy
