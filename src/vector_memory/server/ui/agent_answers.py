"""Answers of the tools, character for character as an agent gets them."""

import asyncio
import json
from contextlib import nullcontext
from contextvars import Context
from functools import cache
from typing import Any, NamedTuple

from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from vector_memory.chunking.tokens import find_token_counter
from vector_memory.domain import MemoryKind, Scope
from vector_memory.search.answer import GrainName
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.settings import Answers, ServerOptions, Toolset
from vector_memory.store import SessionMemoryStore

IN_GRAIN: dict[GrainName, str] = {
    "chunk": "_specific_chunks",
    "section": "_section_context",
    "document": "_full_documents",
}
SEARCHES = {
    MemoryKind.REPORT: "search_reports",
    MemoryKind.WORKING_MEMORY: "search_working_memory",
    MemoryKind.KNOWLEDGE_BASE: "search_knowledge_base",
    MemoryKind.SESSION_CONTEXT: "search_session_context",
    MemoryKind.INPUT_PROMPT: "search_input_prompts",
    MemoryKind.SYSTEM_MEMORY: "search_system_memory",
    MemoryKind.TAGGED: "search_memories",
}


class AgentAnswer(NamedTuple):
    """The call of a tool, and the text of its answer with its length in tokens."""

    tool: str
    arguments: dict[str, Any]
    text: str
    tokens: int


class AgentAnswers:
    """Calls the search tools as an agent would, on a store of this process."""

    def __init__(self, store: SessionMemoryStore) -> None:
        self._store = store
        self._server = cache(self._make_server)
        self._count = cache(lambda: find_token_counter(None))

    async def ask(self, query: str, scope: Scope, grain: GrainName, *, is_lean: bool) -> AgentAnswer | None:
        """Return the answer to a question about a kind of memory; None: agents have no tool that searches this kind."""
        tool = tool_for(scope.kind or MemoryKind.REPORT, grain)
        if tool is None:
            return None
        known = parameters_of(tool)
        arguments = {name: value for name, value in scope.as_filters().items() if name in known} | {"query": query}
        server = self._server(Answers.LEAN if is_lean else Answers.FULL)
        # In a context of its own: with the token of this request, the tool would look for its namespace.
        answer = await asyncio.create_task(called(server, tool, arguments), context=Context())
        text = "\n".join(part.text for part in answer.content if part.type == "text")
        text = text or json.dumps(answer.structured_content, ensure_ascii=False)
        return AgentAnswer(tool, arguments, text, self._count()(text))

    def _make_server(self, answers: Answers) -> FastMCP:
        options = ServerOptions(toolsets="session,tagged", answers=answers, read_only=True)
        return create_server(lambda: nullcontext(self._store), options)


async def called(server: FastMCP, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Return the answer of a tool."""
    async with Client(server) as client:
        answer: CallToolResult = await client.call_tool(tool, arguments, raise_on_error=False)
    return answer


def tool_for(kind: MemoryKind, grain: GrainName) -> str | None:
    """Return the name of the tool that searches a kind."""
    suffix = IN_GRAIN[grain] if kind in list(SEARCHES)[:3] else ""
    return f"{SEARCHES[kind]}{suffix}" if kind in SEARCHES else None


@cache
def parameters_of(tool: str) -> frozenset[str]:
    """Return the names of a tool's parameters."""
    [found] = [one for one in offered([Toolset.SESSION, Toolset.TAGGED]) if one.name == tool]
    return frozenset(found.parameters["properties"])
