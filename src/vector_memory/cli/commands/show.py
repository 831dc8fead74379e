"""The commands that show memories without searching: they need no model and change nothing."""

import sys
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.commands.opening import opened, require_session
from vector_memory.cli.commands.show_output import print_list, print_memory, print_sessions, print_timeline
from vector_memory.cli.flags import (
    AsJson,
    Filters,
    FiltersInSession,
    LocationFlags,
    MemoryId,
    OfAgent,
    Since,
    Switch,
    Until,
    window,
)
from vector_memory.cli.terminal import print_json
from vector_memory.domain import Scope
from vector_memory.results.budget import ResponseBudget
from vector_memory.sessions.overview import Overview
from vector_memory.sessions.statistics import Statistics
from vector_memory.settings import MAX_RESPONSE_TOKENS, DatabaseLocation

SessionArgument = Annotated[str, Parameter(help="Id of a session, as listed by `vector-memory sessions`.")]


def show(
    memory_id: MemoryId,
    /,
    *,
    raw: Annotated[bool, Switch(help="Print only the exact text.")] = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """Print a memory's text and origin."""
    with opened(place) as storage:
        memory = Overview(storage).memory(memory_id)
    if raw:
        sys.stdout.buffer.write(memory.content.encode())
    elif as_json:
        print_json(memory.model_dump(exclude={"content_end"}))
    else:
        print_memory(memory)


def sessions(
    *,
    agent: OfAgent = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Parameter(help="Maximum number of sessions (1-100).")] = 20,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """List the sessions, latest activity first."""
    scope = Scope(agent_id=agent, **window(since, until))
    with opened(place) as storage:
        found = Statistics(storage, ResponseBudget(MAX_RESPONSE_TOKENS)).list_sessions(limit, scope)
    if as_json:
        print_json(found.model_dump())
    else:
        print_sessions(found, filtered=bool(scope.as_filters()))


def timeline(
    session: SessionArgument,
    /,
    *,
    filters: Annotated[FiltersInSession, Parameter(name="*")] = FiltersInSession(),
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 100,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """List what was stored in a session, latest last: time, kind and agent."""
    scope = filters.scope(filters.kind, session_id=session)
    with opened(place) as storage:
        require_session(storage, session)
        found = Overview(storage).timeline(scope, limit)
    if as_json:
        print_json(found.model_dump())
    else:
        print_timeline(found)


def list_(
    *,
    filters: Annotated[Filters, Parameter(name="*")] = Filters(),
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 20,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """List memories of any kind, also knowledge and tagged notes, latest first."""
    scope = filters.scope(filters.kind)
    with opened(place) as storage:
        if filters.session is not None:
            require_session(storage, filters.session)
        found = Overview(storage).timeline(scope, limit)
    if as_json:
        print_json(found.model_dump() | {"entries": [entry.model_dump() for entry in reversed(found.entries)]})
    else:
        print_list(found, is_filtered=bool(scope.as_filters()))
