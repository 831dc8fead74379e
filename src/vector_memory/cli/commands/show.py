"""The commands that list, print, count and review memories: they need no model."""

import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from vector_memory.answers.budget import ResponseBudget
from vector_memory.answers.models import MemoryEntry
from vector_memory.answers.overview import (
    MemoryStatsResult,
    PeoplesReview,
    ReviewedMemory,
    SessionsResult,
    SessionStatsResult,
    TimelineResult,
    VerifyResult,
)
from vector_memory.cli.flags import (
    TO_BEGIN,
    AsOfTime,
    Filters,
    FiltersInSession,
    MemoryFlags,
    MemoryId,
    OfAgent,
    Since,
    StoreFlags,
    Switch,
    Until,
    require_session,
    window,
)
from vector_memory.cli.terminal import console, grid, moment, one_line, print_json, printable, say
from vector_memory.domain import EVERYTHING, Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import parse_id
from vector_memory.reading.overview import Overview, Statistics
from vector_memory.settings import MAX_RESPONSE_TOKENS, MemoryAddress

SessionArgument = Annotated[str, Parameter(help="Id of a session, as listed by `vector-memory sessions`.")]


def show(
    memory_id: MemoryId,
    /,
    *,
    raw: Annotated[bool, Switch(help="Print only the exact text.")] = False,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """Print a memory's text and origin."""
    with here.opened() as storage:
        memory = Overview(storage).memory(memory_id)
    if raw:
        sys.stdout.buffer.write(memory.content.encode())
    elif here.as_json:
        print_json(memory.model_dump(exclude={"content_end"}))
    else:
        print_memory(memory)


def sessions(
    *,
    agent: OfAgent = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfTime = None,
    limit: Annotated[int, Parameter(help="Maximum number of sessions (1-100).")] = 20,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List the sessions, latest activity first."""
    scope = Scope(agent_id=agent, **window(since, until, as_of))
    with here.opened() as storage:
        found = Statistics(storage, ResponseBudget(MAX_RESPONSE_TOKENS)).list_sessions(limit, scope)
    here.show(found, partial(print_sessions, filtered=bool(scope.as_filters())))


def timeline(
    session: SessionArgument,
    /,
    *,
    filters: FiltersInSession = FiltersInSession(),
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 100,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List what was stored in a session, latest last: time, kind and agent."""
    scope = filters.scope(filters.kind, session_id=session)
    with here.opened() as storage:
        require_session(storage, session)
        found = Overview(storage).timeline(scope, limit)
    here.show(found, print_timeline)


def list_(
    *,
    filters: Filters = Filters(),
    limit: Annotated[int, Parameter(help="Maximum number of memories: the latest ones.")] = 20,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List memories of any kind, also knowledge and tagged notes, latest first."""
    scope = filters.scope(filters.kind)
    with here.opened() as storage:
        if filters.session_id is not None:
            require_session(storage, filters.session_id)
        found = Overview(storage).timeline(scope, limit)
    if here.as_json:
        print_json(found.model_dump() | {"entries": [entry.model_dump() for entry in reversed(found.entries)]})
    else:
        print_list(found, is_filtered=bool(scope.as_filters()))


SESSIONS = ("session", "memories", "latest (UTC)", "agents")
AGENTS_SHOWN = 3
LISTED = ("id", "stored (UTC)", "kind", "session", "title")
SESSION_SHOWN = 24


def print_sessions(found: SessionsResult, *, filtered: bool) -> None:
    """Print sessions as a table. `filtered`: others may have been left out."""
    table = grid(SESSIONS)
    for column in table.columns:
        column.overflow = "fold"
    table.columns[1].justify = "right"
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
        out.print("No sessions match: leave out a filter." if filtered else "There are no sessions.")


def print_timeline(found: TimelineResult) -> None:
    """Print memories by day, one line for each."""
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
    print_superseded(found)


def print_superseded(found: TimelineResult) -> None:
    """Print how many superseded memories are left out."""
    if found.superseded:
        console().print(Text(without_superseded(found.superseded), style="dim"))


def without_superseded(number: int) -> str:
    """Say how many superseded memories are left out."""
    return f"{counted(number, 'superseded memory', 'superseded memories')} left out; --as-of any lists them"


def print_list(found: TimelineResult, *, is_filtered: bool) -> None:
    """Print memories as a table, the latest first."""
    out = console()
    table = grid(LISTED, expand=True)
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].justify = "right"
    table.columns[-1].ratio = 1
    for entry in reversed(found.entries):
        table.add_row(
            Text(f"{entry.memory_id}", style="cyan"),
            Text(moment(entry.created_at), style="dim"),
            Text(entry.memory_type, style="green"),
            Text(cut_to(one_line(entry.session_id or "-"), SESSION_SHOWN)),
            Text(one_line(entry.title or entry.beginning), style="bold"),
        )
    if found.entries:
        out.print(table)
    if len(found.entries) < found.total_memories:
        shown = f"{len(found.entries):,} of {found.total_memories:,} memories; use --limit for more"
        out.print(Text(shown, style="dim"))
    elif not found.entries:
        out.print("No memories match: leave out a filter." if is_filtered else f"The memory is empty. {TO_BEGIN}")
    print_superseded(found)


def cut_to(text: str, length: int) -> str:
    """Return a text, cut to a maximum length."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def print_memory(memory: MemoryEntry) -> None:
    """Print a memory's origin and text."""
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
        "superseded by": ", ".join(map(str, memory.superseded_by)),
        "supersedes": ", ".join(map(str, memory.supersedes)),
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


def stats(
    session: Annotated[str | None, Parameter(help="Only this session; default: the whole memory.")] = None,
    /,
    *,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """Count memories: all of them, or those of one session."""
    with here.opened() as storage:
        found: MemoryStatsResult | SessionStatsResult
        if session is None:
            found = Overview(storage).memory_stats()
        else:
            require_session(storage, session)
            found = Statistics(storage, ResponseBudget(MAX_RESPONSE_TOKENS)).session_stats(session)
    here.show(found, partial(_print_stats, address=here.place.address()))


def _print_stats(found: MemoryStatsResult | SessionStatsResult, address: MemoryAddress) -> None:
    out, stored = console(), "nothing yet"
    if found.earliest_created and found.latest_created:
        stored = f"{moment(found.earliest_created)} to {moment(found.latest_created)} (UTC)"
    facts = {
        "memories": f"{found.total_memories:,} in {counted(found.total_chunks, 'chunk')}",
        "kinds": _in_descending_order(found.memory_counts),
        "stored": stored,
    }
    if isinstance(found, SessionStatsResult):
        out.print(Text(f"session {one_line(found.session_id or '')}", style="bold"))
        if found.message:
            out.print(Text(found.message, style="yellow"))
        facts["agents"] = _in_descending_order(found.agent_counts)
    else:
        out.print(Text(str(address), style="bold"), soft_wrap=True)
        facts |= _facts_of_memory(found)
    out.print(facts_table({name: value for name, value in facts.items() if value}))


def _facts_of_memory(found: MemoryStatsResult) -> dict[str, str]:
    facts = {
        "sessions": f"{found.total_sessions:,} of {counted(found.total_agents, 'agent')}",
        "size": f"{found.database_bytes / 1e6:,.1f} MB",
        "vectors": found.embedding_model or "none",
    }
    if found.without_vectors:
        missing = counted(found.without_vectors, "memory", "memories")
        coming = f"a server is computing {found.pending_vectors:,} of them" if found.pending_vectors else ""
        left = found.without_vectors > found.pending_vectors
        advice = ", ".join(filter(None, [coming, "run `vector-memory backfill`" if left else ""]))
        facts["to do" if left else "pending"] = f"{missing} without vectors: {advice}"
    for told in found.recalls:
        facts[f"recall, {one_line(told.client)}"] = (
            f"{told.tokens_per_session:,} tokens a session on average in {counted(told.sessions, 'session')}; "
            f"{counted(told.recaps, 'recap')}, {counted(told.recalls, 'recall')}, {told.used:,} used"
        )
    return facts


def _in_descending_order(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))


def review(
    *,
    session: Annotated[str | None, Parameter(help="Only this session.")] = None,
    limit: Annotated[int, Parameter(help="Maximum number of lines (1-100).")] = 20,
    dismiss: Annotated[
        list[str] | None, Parameter(help="Id of a memory that is still correct: stop listing it; repeatable.")
    ] = None,
    accept: Annotated[
        list[str] | None, Parameter(help='Id of a held memory to release, or "all" that await review; repeatable.')
    ] = None,
    reject: Annotated[list[str] | None, Parameter(help="Id of a held memory to delete for good; repeatable.")] = None,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List memories to look at: held ones, those with later ones on their subject, and old ones never read."""
    from vector_memory.reading.review import Review
    from vector_memory.storage.queries.lifecycle import PENDING
    from vector_memory.writing.holding import Holding

    with here.opened(read_only=not (dismiss or accept or reject)) as storage:
        if session is not None:
            require_session(storage, session)
        reviewed, holding = Review(storage, ResponseBudget(MAX_RESPONSE_TOKENS)), Holding(storage)
        for memory_id in dismiss or []:
            reviewed.dismiss(memory_id)
        if accept == [EVERYTHING]:
            accept = [str(one.memory_id) for one, _ in holding.held() if one.held == PENDING]
        for done, change, ids in (("Accepted", holding.accept, accept), ("Deleted", holding.reject, reject)):
            if ids:
                change([parse_id("memory_id", one) for one in ids])
                if not here.as_json:
                    say(f"{done} {counted(len(ids), 'memory', 'memories')}.")
        found = reviewed.for_people(Scope(session_id=session), limit)
    here.show(found, print_review)


def verify(*, filters: Filters = Filters(), here: StoreFlags = StoreFlags()) -> None:
    """List memories about files of this project that have changed since, or are gone.

    Files are named as evidence when a memory is stored.
    """
    with here.store(read_only=True) as store:
        found = store.verify(filters.scope(filters.kind))
    here.show(found, print_verified)


def print_verified(found: VerifyResult) -> None:
    """Print what no longer holds, and how much does."""
    for line in found.lines:
        say(printable(f"memory {line.memory_id}: {line.place} {line.state}"))
    say(found.message or "")


def print_review(found: PeoplesReview) -> None:
    """Print a review as a table, and what to do with it."""
    out = console()
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", style="cyan")
    table.add_column(style="dim")
    table.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
    held = [one for one in found.held if one.held_until is None]
    for one in held:
        table.add_row(*entry_of(one, note=f"{one.held}, {one.held_for}: "))
    for line in found.lines:
        note = "" if line.later is not None else "never read: "
        table.add_row(*entry_of(line, note=note))
        if line.later is not None:
            table.add_row(*entry_of(line.later, mark="→ "))
            if line.is_repeated:
                table.add_row("", "", Text("says all that the earlier one says", style="yellow"))
            if line.differences:
                table.add_row("", "", Text("; ".join(line.differences), style="yellow"))
    out.print(table)
    out.print(Text(found.message or ""))
    if held:
        out.print(Text(f"vector-memory review --accept {held[0].id}, or --reject {held[0].id}", style="bold"))
    example = next(((line.later.id, line.id) for line in found.lines if line.later is not None), None)
    if example is not None:
        out.print(Text("vector-memory supersede {} {}".format(*example), style="bold"))


def entry_of(memory: ReviewedMemory, *, mark: str = "", note: str = "") -> tuple[str, str, Text]:
    """Return the id of a memory, the day when it was stored, and its title or beginning."""
    said = Text.assemble((note, "dim"), one_line(memory.title or memory.content))
    return f"{mark}{memory.id}", moment(memory.created_at)[:10], said
