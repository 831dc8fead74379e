# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The commands that show memories without searching: they need no model and change nothing."""

import sys
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from vector_memory.cli.commands.opening import opened, require_session
from vector_memory.cli.flags import (
    AsJson,
    LocationFlags,
    MemoryId,
    OfAgent,
    OfIteration,
    OfKind,
    OfSession,
    OfTask,
    Since,
    Until,
    window,
)
from vector_memory.cli.terminal import console, moment, one_line, print_json
from vector_memory.cli.terminal_text import printable
from vector_memory.domain import Scope
from vector_memory.domain.text import counted
from vector_memory.results.budget import Packer
from vector_memory.results.sessions import MemoryEntry
from vector_memory.sessions.overview import Overview
from vector_memory.sessions.statistics import Statistics
from vector_memory.settings import MAX_RESPONSE_TOKENS, DatabaseLocation

SessionArgument = Annotated[str, Parameter(help="Id of a session, as listed by `vector-memory sessions`.")]


def show(
    memory_id: MemoryId,
    /,
    *,
    raw: Annotated[bool, Parameter(help="Print only the exact text.", negative=(), show_default=False)] = False,
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
        _print_memory(memory)


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
        found = Statistics(storage, Packer(MAX_RESPONSE_TOKENS)).list_sessions(limit, scope)
    if as_json:
        print_json(found.model_dump())
        return
    table = Table.grid(padding=(0, 2), pad_edge=False)
    for heading in ("session", "memories", "latest (UTC)", "agents"):
        table.add_column(justify="right" if heading == "memories" else "left", overflow="fold")
    table.add_row(*(Text(heading, style="dim") for heading in ("session", "memories", "latest (UTC)", "agents")))
    for session in found.sessions:
        agents = ", ".join(map(one_line, session.agents[:AGENTS_SHOWN]))
        more = session.agent_count - AGENTS_SHOWN
        table.add_row(
            Text(one_line(session.session_id), style="bold"),
            Text(f"{session.memory_count:,}"),
            Text(moment(session.latest_activity)),
            Text(f"{agents} and {more} more" if more > 0 else agents, style="cyan"),
        )
    out = console()
    if found.sessions:
        out.print(table)
    if len(found.sessions) < found.total_sessions:
        out.print(
            Text(f"{len(found.sessions)} of {found.total_sessions:,} sessions; use --limit for more", style="dim")
        )
    elif not found.sessions:
        out.print("No sessions match: leave out a filter." if scope.as_filters() else "There are no sessions.")


AGENTS_SHOWN = 3


def timeline(
    session: SessionArgument,
    /,
    *,
    agent: OfAgent = None,
    kind: OfKind = None,
    iteration: OfIteration = None,
    task: OfTask = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 100,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """List what was stored in a session, latest last: time, kind and agent."""
    scope = Scope(
        kind,
        session_id=session,
        agent_id=agent,
        session_iter=iteration,
        task_code=task,
        **window(since, until),
    )
    with opened(place) as storage:
        require_session(storage, session)
        found = Overview(storage).timeline(scope, limit)
    if as_json:
        print_json(found.model_dump())
        return
    out = console()
    earlier = found.total_memories - len(found.entries)
    if earlier:
        out.print(Text(f"{counted(earlier, 'earlier memory', 'earlier memories')}; use --limit for more", style="dim"))
    day = ""
    for entry in found.entries:
        if entry.created_at[:10] != day:
            day = entry.created_at[:10]
            out.print(Text(f"{day} (UTC)", style="bold"))
        line = Table.grid(padding=(0, 1), pad_edge=False, expand=True)
        line.add_column(width=7)
        line.add_column(justify="right", min_width=4)
        line.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
        line.add_row(
            Text(f"  {entry.created_at[11:16]}", style="dim"),
            Text(f"{entry.memory_id}", style="cyan"),
            Text.assemble(
                (entry.memory_type, "green"),
                f" v{entry.session_iter} ",
                (one_line(entry.agent_id), "magenta"),
                f"{' ' + one_line(entry.task_code) if entry.task_code else ''}  ",
                one_line(entry.title or entry.beginning),
            ),
        )
        out.print(line)
    if not found.entries:
        out.print("No memories match: leave out a filter.")


def list_(
    *,
    kind: OfKind = None,
    session: OfSession = None,
    agent: OfAgent = None,
    iteration: OfIteration = None,
    task: OfTask = None,
    category: Annotated[str | None, Parameter(help="Only this category.")] = None,
    tags: Annotated[list[str] | None, Parameter(help="Only memories with any of these tags; repeatable.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 20,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """List memories of any kind, also knowledge and tagged notes, latest first."""
    scope = Scope(
        kind,
        session_id=session,
        agent_id=agent,
        session_iter=iteration,
        task_code=task,
        category=category,
        tags=tags,
        **window(since, until),
    )
    with opened(place) as storage:
        if session is not None:
            require_session(storage, session)
        found = Overview(storage).timeline(scope, limit)
    if as_json:
        print_json(found.model_dump() | {"entries": [entry.model_dump() for entry in reversed(found.entries)]})
        return
    out = console()
    table = Table.grid(padding=(0, 2), pad_edge=False, expand=True)
    for number, _ in enumerate(LISTED):
        table.add_column(justify="left" if number else "right", no_wrap=True, overflow="ellipsis")
    table.columns[-1].ratio = 1
    table.add_row(*(Text(heading, style="dim") for heading in LISTED))
    for entry in reversed(found.entries):
        table.add_row(
            Text(f"{entry.memory_id}", style="cyan"),
            Text(moment(entry.created_at), style="dim"),
            Text(entry.memory_type, style="green"),
            Text(shortened(one_line(entry.session_id or "-"), SESSION_SHOWN)),
            Text(one_line(entry.title or entry.beginning), style="bold"),
        )
    if found.entries:
        out.print(table)
    if len(found.entries) < found.total_memories:
        shown = f"{len(found.entries):,} of {found.total_memories:,} memories; use --limit for more"
        out.print(Text(shown, style="dim"))
    elif not found.entries:
        out.print("No memories match: leave out a filter." if scope.as_filters() else "The memory is empty.")


LISTED = ("id", "stored (UTC)", "kind", "session", "title")
SESSION_SHOWN = 24


def shortened(text: str, length: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _print_memory(memory: MemoryEntry) -> None:
    out = console()
    facts = {
        "title": memory.title,
        "kind": memory.memory_type,
        "agent": memory.agent_id,
        "session": memory.session_id and f"{memory.session_id}, iteration {memory.session_iter}",
        "task": memory.task_code,
        "description": memory.description,
        "tags": ", ".join(memory.tags),
        "metadata": ", ".join(f"{name}: {value}" for name, value in memory.metadata.items()),
        "stored": f"{moment(memory.created_at)} (UTC)",
        "read": f"{counted(memory.access_count, 'time')}",
        "size": counted(memory.content_length, "character"),
    }
    out.print(Text(f"memory {memory.id}", style="bold"))
    out.print(facts_table({name: str(value) for name, value in facts.items() if value}))
    out.print()
    out.print(Text(printable(memory.content)), soft_wrap=not out.is_terminal)


def facts_table(facts: Mapping[str, str]) -> Table:
    """Return names and values as a table of two columns."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(f"  {name}"), Text(one_line(value)))
    return table
