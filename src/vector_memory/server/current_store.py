"""The store that a call works on: the server's only one, or that of the caller's namespace."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastmcp.server.dependencies import get_access_token

from vector_memory.domain.callers import Caller, Permission

if TYPE_CHECKING:  # the names are also for others
    from vector_memory.clients.reading.own_memories import OwnMemories as OwnMemories  # noqa: PLC0414
    from vector_memory.extras.teams.namespaces import Namespaces as Namespaces  # noqa: PLC0414
    from vector_memory.files import FileMemory as FileMemory  # noqa: PLC0414
    from vector_memory.store import SessionMemoryStore as SessionMemoryStore  # noqa: PLC0414
else:
    FileMemory = Namespaces = OwnMemories = SessionMemoryStore = Any  # imported when they are opened

MEMORY = "memory"
"""The name of the part that holds the store, or the namespaces."""

CLAIM = "caller"
"""The claim of an access token that holds its Caller."""

OWNER = Caller(name="", namespace="", permission=Permission.ADMIN)
"""The caller of a server without tokens: any client that can reach it may do everything."""


def current_caller() -> Caller:
    """Return who makes the current call."""
    token = get_access_token()
    return OWNER if token is None else token.claims[CLAIM]


def store_of_caller(parts: Mapping[str, Any]) -> SessionMemoryStore:
    """Return the current call's store from the server's parts."""
    caller, memory = current_caller(), parts[MEMORY]
    store: SessionMemoryStore = memory if caller is OWNER else memory.store_of(caller)
    return store
