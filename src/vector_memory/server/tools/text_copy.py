"""The text that repeats a structured answer: whole, except for clients that are known to ignore it.

Orchestrators parse the text, so it is shortened only for the clients and versions of a table.
`tests/real_client` shows for them that their agents get the structured answer.
"""

import json
from collections.abc import Iterator
from typing import Any

from fastmcp.server.context import Context
from fastmcp.tools import ToolResult
from mcp_types import TextContent

READS_ONLY_STRUCTURE = {"claude-code": frozenset({"2.1.330"})}
"""Versions of clients, by name, whose agents see only the structured part of a successful answer."""


def for_client(answer: ToolResult, context: Context) -> ToolResult:
    """Return a successful answer with a text of the ids alone for a client that does not read it."""
    client = context.session.client_params
    if client is None or client.client_info.version not in READS_ONLY_STRUCTURE.get(client.client_info.name, ()):
        return answer
    body = answer.structured_content
    if body is None or answer.is_error:
        return answer
    text = json.dumps({"memory_ids": list(dict.fromkeys(ids_in(body)))})
    return ToolResult(content=[TextContent(type="text", text=text)], structured_content=body)


def ids_in(value: Any) -> Iterator[int]:
    """Yield the ids of the memories in an answer, in their order."""
    if isinstance(value, list):
        for one in value:
            yield from ids_in(one)
    elif isinstance(value, dict):
        yield from (value[key] for key in ("memory_id", "id") if isinstance(value.get(key), int))
        for one in value.values():
            yield from ids_in(one)
