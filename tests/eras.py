"""How the tests call a server: the two protocol eras, and the types of the fixtures."""

from collections.abc import Awaitable, Callable

from fastmcp.client.client import CallToolResult

ERAS = {"2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
"""Protocol versions, and what FastMCP's client calls the way to speak them."""

Call = Callable[..., Awaitable[CallToolResult]]
Rows = Callable[[], dict[str, object]]
