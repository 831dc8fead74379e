"""The store that a call works on: the server's only one, or that of the caller's namespace."""

from collections.abc import Mapping
from typing import Any

from fastmcp.server.dependencies import get_access_token

from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.tokens import Caller, Permission

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
    """Return the store of the current call from the parts that the server's lifespan opened."""
    memory: SessionMemoryStore | Namespaces = parts[MEMORY]
    return memory.store_of(current_caller()) if isinstance(memory, Namespaces) else memory
