"""The tool that reports what is new in a session."""

from typing import Annotated

from fastmcp.tools import tool
from pydantic import Field

from vector_memory.domain import TRAITS, Page, Scope
from vector_memory.domain.validation import check_range
from vector_memory.results.sessions import ChangesResult
from vector_memory.server.tools.params import (
    READS,
    AsOf,
    CreatedAfter,
    CreatedBefore,
    InSession,
    Limit,
    MaxTokens,
    Number,
    OfIteration,
    OfTask,
    Store,
    Switch,
    WholeNumber,
    found_by,
)
from vector_memory.server.tools.waiting import until_new

MAX_WAIT = 50
"""Seconds: Codex gives up on a call after 60."""

SESSION_KINDS = [str(kind) for kind, traits in TRAITS.items() if traits.session_scoped]


@tool(
    title="Search changes", annotations=READS, meta=found_by("catch up, what is new, what did other agents do, recall")
)
async def search_changes(
    *,
    store: Store,
    session_id: InSession,
    since: Annotated[
        str | Number | None,
        Field(description='cursor of your last answer. Default: from the start. "now": only get a cursor'),
    ] = None,
    own_agent_id: Annotated[str | None, Field(description="Your agent_id: omits what you stored")] = None,
    query: Annotated[str | None, Field(description="Best matches first, instead of oldest first")] = None,
    memory_type: Annotated[
        str | None, Field(description="Only this kind", json_schema_extra={"enum": SESSION_KINDS})
    ] = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    as_of: AsOf = None,
    limit: Limit = 20,
    full: Annotated[Switch, Field(description="Whole texts, as far as they fit, not beginnings")] = False,
    max_tokens: MaxTokens = None,
    wait: Annotated[
        WholeNumber, Field(description="Seconds to wait while nothing is new, up to 50; answers once something is")
    ] = 0,
) -> ChangesResult:
    """Catch up: see what other agents stored in a session since your last call, each by its beginning.

    Read on by id with get_memory_by_id. Keep the answer's cursor for the next call. While has_more is true, call again.
    """
    check_range("wait", wait, 0, MAX_WAIT)
    scope = Scope(
        memory_type,
        session_id=session_id,
        own_agent_id=own_agent_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
        as_of=as_of,
    )
    page = Page(limit=limit, max_tokens=max_tokens)

    def changes(since: str | int | None) -> ChangesResult:
        return store.search_changes(scope, since=since, query=query, page=page, full=full)

    return await until_new(store, changes, since, wait)
