"""The command that says what may be out of date. It needs no model."""

from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from vector_memory.cli.flags import MemoryFlags, require_session
from vector_memory.cli.terminal import console, moment, one_line
from vector_memory.domain import Scope
from vector_memory.results.budget import ResponseBudget
from vector_memory.results.overview import ReviewedMemory, ReviewResult
from vector_memory.sessions.review import Review
from vector_memory.settings import MAX_RESPONSE_TOKENS


def review(
    *,
    session: Annotated[str | None, Parameter(help="Only this session.")] = None,
    limit: Annotated[int, Parameter(help="Maximum number of lines (1-100).")] = 20,
    dismiss: Annotated[
        list[str] | None, Parameter(help="First say that no later memory corrects this one, by its id; repeatable.")
    ] = None,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List memories that may be out of date: those with later ones on their subject, and old ones never read."""
    with here.opened(read_only=not dismiss) as storage:
        if session is not None:
            require_session(storage, session)
        reviewed = Review(storage, ResponseBudget(MAX_RESPONSE_TOKENS))
        for memory_id in dismiss or []:
            reviewed.dismiss(memory_id)
        found = reviewed.review(Scope(session_id=session), limit)
    here.show(found, print_review)


def print_review(found: ReviewResult) -> None:
    """Print a review as a table, and what to do with it."""
    out = console()
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", style="cyan")
    table.add_column(style="dim")
    table.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
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
    example = next(((line.later.id, line.id) for line in found.lines if line.later is not None), None)
    if example is not None:
        out.print(Text("vector-memory supersede {} {}".format(*example), style="bold"))


def entry_of(memory: ReviewedMemory, *, mark: str = "", note: str = "") -> tuple[str, str, Text]:
    """Return the id of a memory, the day when it was stored, and its title or beginning."""
    said = Text.assemble((note, "dim"), one_line(memory.title or memory.content))
    return f"{mark}{memory.id}", moment(memory.created_at)[:10], said
