"""Fills in the session and the agent that a call leaves out, and the word for the session before this one."""

from collections.abc import Mapping
from typing import Any

from anyio.to_thread import run_sync
from fastmcp import Context

from vector_memory.server.conversation import client_of, conversation_of
from vector_memory.server.current_store import store_of_caller
from vector_memory.sessions.recap import LAST


async def with_names(given: dict[str, Any], properties: Mapping[str, Any], context: Context, *, stores: bool) -> None:
    """Complete the arguments of a call. `properties`: the tool's parameters. `stores`: it adds a memory.

    A store that names no session belongs to the client's own, and one that names no agent to the client. Everything
    else is left as it is: a search without a session searches all of them.
    """
    if given.get("session_id") == LAST:
        conversation = conversation_of(context)
        past = store_of_caller(context.lifespan_context).past
        found = await run_sync(past.last_session, conversation.project, conversation.own_session)
        given["session_id"] = found or (conversation.session() if stores else LAST)
    if stores and "session_id" in properties:
        given.setdefault("session_id", conversation_of(context).session())
    if stores and "agent_id" in properties and "default" not in properties["agent_id"]:
        given.setdefault("agent_id", client_of(context))
