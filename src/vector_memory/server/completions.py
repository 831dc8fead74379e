"""Completion of session ids, agent ids and task codes while the user types."""

import asyncio
from collections.abc import Mapping

from fastmcp import Context, FastMCP
from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from vector_memory.server.current_store import SessionMemoryStore, store_of_caller
from vector_memory.storage.records import NamedBy

COMPLETED: tuple[NamedBy, ...] = ("session_id", "agent_id", "task_code")
"""The arguments of prompts and resource templates that are completed."""


def add_completions(server: FastMCP) -> None:
    """Let a server complete the arguments of its prompts and resource templates from stored names."""

    async def complete(
        _reference: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        async with Context(fastmcp=server) as current:
            store = store_of_caller(current.lifespan_context)
        chosen = (context.arguments if context else None) or {}
        return await asyncio.to_thread(names, store, argument, chosen)

    server.add_completion_handler(complete)


def names(store: SessionMemoryStore, argument: CompletionArgument, chosen: Mapping[str, str]) -> Completion:
    """Return the names that contain the typed text; agents and tasks come from the chosen session."""
    column = next((name for name in COMPLETED if name == argument.name), None)
    if column is None:
        return Completion(values=[])
    session_id = None if column == "session_id" else chosen.get("session_id")
    found, total = store.find_names(column, argument.value, session_id)
    return Completion(values=found, total=total, has_more=total > len(found))
