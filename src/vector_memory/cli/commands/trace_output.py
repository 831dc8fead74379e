"""Output of `search --explain` and `--why-not`: how each candidate was measured, and why a memory was not found."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from vector_memory.cli.terminal import console, one_line
from vector_memory.search.explaining import Trace

COLUMNS = ("rank", "memory", "id", "score", "cosine", "words", "late", "has", "lacks", "")


def print_traces(traces: Sequence[Trace], *, candidates: bool) -> None:
    """Print traces, one for each kind that was searched; without `candidates` only what is said of one memory."""
    out = console()
    for trace in traces:
        if candidates:
            filters = ", ".join(f"{name}={one_line(str(value))}" for name, value in trace["filters"].items())
            out.print(Text(f"\n{filters}", style="bold"))
            out.print(Text(f"{trace['compared']}; candidates: {trace['candidates_compared']:,}", style="dim"))
            out.print(_table(trace))
        if "memory" in trace:
            out.print(Text(f"Memory {trace['memory']['id']}: {trace['memory']['why']}", style="yellow"))


def _table(trace: Trace) -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    for name in COLUMNS:
        table.add_column(justify="left" if name in ("has", "lacks", "") else "right", overflow="fold")
    table.add_row(*(Text(name, style="dim") for name in COLUMNS))
    for one in trace["candidates"]:
        measures = ("-" if one[name] is None else f"{one[name]:.3f}" for name in ("score", "cosine", "words", "late"))
        words = (one_line(" ".join(named)) for named in (_found(one), one["lacks"]))
        cells = (str(one["rank"]), str(one["memory_id"]), str(one["id"]), *measures, *words, one["fate"])
        table.add_row(*map(Text, cells))
    return table


def _found(candidate: Trace) -> list[str]:
    """Return the words that a candidate has; in brackets those that only its title or its headings have."""
    return [f"({word})" if word in candidate["in_headings"] else word for word in candidate["has"]]
