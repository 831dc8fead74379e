"""Output of the commands that show memories without searching."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from vector_memory.cli.terminal import console, grid, moment, one_line, printable
from vector_memory.domain.text import counted
from vector_memory.results.overview import SessionsResult, TimelineResult
from vector_memory.results.sessions import MemoryEntry

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
            Text(shortened(one_line(entry.session_id or "-"), SESSION_SHOWN)),
            Text(one_line(entry.title or entry.beginning), style="bold"),
        )
    if found.entries:
        out.print(table)
    if len(found.entries) < found.total_memories:
        shown = f"{len(found.entries):,} of {found.total_memories:,} memories; use --limit for more"
        out.print(Text(shown, style="dim"))
    elif not found.entries:
        out.print("No memories match: leave out a filter." if is_filtered else "The memory is empty.")


def shortened(text: str, length: int) -> str:
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
