"""Calls of every tool, made from its parameters, so that a new tool is in every test that goes over all of them."""

import json
from collections.abc import Sequence
from typing import Any

from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Toolset

SESSION_TOOLS = offered([Toolset.SESSION])

ADDED_TOOLS = {"search_changes"}
"""The tools of the session family beyond the 28 of the contract; docs/lab/choices.md says what they are for."""

CONTRACT_TOOLS = tuple(tool for tool in SESSION_TOOLS if tool.name not in ADDED_TOOLS)

REQUIRED = {
    "agent_id": "a",
    "session_id": "s",
    "session_iter": 1,
    "content": "# Title\n\nWords about databases.",
    "title": "Title",
    "query": "databases",
    "memory_id": 1,
    "chunk_id": 1,
    "output_path": "report.md",
    "path": "MEMORY.md",
    "entry": "Words about databases.",
    "older_ids": [1],
}
"""A good value for every parameter that some tool cannot do without."""


def wire_list(tools: Sequence[MemoryTool] = CONTRACT_TOOLS) -> str:
    """What of the list an agent pays for, as it is on the wire."""
    seen = [{"name": tool.name, "description": tool.description, "inputSchema": tool.parameters} for tool in tools]
    return json.dumps(seen, separators=(",", ":"), ensure_ascii=False)


def good_arguments(tool: MemoryTool) -> dict[str, Any]:
    """Return arguments with which the tool succeeds where memory 1 and chunk 1 are."""
    needed = list(tool.parameters.get("required", ()))
    if "queries" in tool.parameters["properties"]:
        needed.append("query")
    return {name: REQUIRED[name] for name in needed}


def with_text(tool: MemoryTool, parameter: str, text: str) -> list[dict[str, Any]]:
    """Return arguments that hold a text in a parameter: as it is, and within a list or object if it takes those."""
    types = tool.parameters["properties"][parameter].get("type", ())
    values: list[object] = [text]
    if "array" in types:
        values.append([text])
    if "object" in types:
        values.append({text: [text]})
    return [{**good_arguments(tool), parameter: value} for value in values]
