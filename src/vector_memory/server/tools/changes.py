"""The tool that reports what is new in a session."""

from typing import Annotated, Any

from pydantic import Field

from vector_memory.answers.models import ChangesResult
from vector_memory.domain import TRAITS, Page, Scope
from vector_memory.domain.validation import check_range
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools.params import (
    FILTERED,
    READS,
    InSession,
    Limit,
    MaxTokens,
    Parameters,
    Store,
    Switch,
    TextOrNumber,
    WholeNumber,
    all_but,
    declared,
    found_by,
)
from vector_memory.server.tools.waiting import until_new

MAX_WAIT = 50
"""Seconds: Codex gives up on a call after 60."""

SESSION_KINDS = [str(kind) for kind, traits in TRAITS.items() if traits.session_scoped]

SINCE = 'cursor of the last answer; default: from the start; "now": only a cursor'
WAIT = "Seconds to wait for something new, up to 50"

PARAMETERS: Parameters = {
    "store": (Store,),
    "session_id": (InSession,),
    "since": (Annotated[TextOrNumber | None, Field(description=SINCE)], None),
    "own_agent_id": (Annotated[str | None, Field(description="Your agent_id: omits your own memories")], None),
    "query": (Annotated[str | None, Field(description="Best matches first, not oldest first")], None),
    "memory_type": (
        Annotated[str | None, Field(description="Only this kind", json_schema_extra={"enum": [*SESSION_KINDS]})],
        None,
    ),
    **all_but(FILTERED, "agent_id", "session_id", "category"),
    "limit": (Limit, 20),
    "full": (Annotated[Switch, Field(description="Whole texts as far as they fit, not beginnings")], False),
    "max_tokens": (MaxTokens, None),
    "wait": (Annotated[WholeNumber, Field(description=WAIT)], 0),
}


async def changes_since(
    *,
    store: SessionMemoryStore,
    since: str | int | None,
    query: str | None,
    memory_type: str | None,
    limit: int,
    full: bool,
    max_tokens: int | None,
    wait: int,
    **filters: Any,
) -> ChangesResult:
    """Return what is new, as soon as there is something or the time is up."""
    check_range("wait", wait, 0, MAX_WAIT)
    scope, page = Scope(memory_type, **filters), Page(limit=limit, max_tokens=max_tokens)

    def changes(since: str | int | None) -> ChangesResult:
        return store.search_changes(scope, since=since, query=query, page=page, full=full)

    return await until_new(store, changes, since, wait)


search_changes = declared(
    changes_since,
    "search_changes",
    "Search changes",
    """Catch up: see what other agents stored in a session since your last call.

    Shows beginnings: read the rest with get_memory_by_id. Keep the cursor for the next call. While has_more is true,
    call again.
    """,
    PARAMETERS,
    READS,
    found_by("catch up, what is new, what did other agents do, recall"),
)
