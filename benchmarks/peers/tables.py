"""From figures to a Markdown table, and into the documentation."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "comparison.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PLACES = ("start", "middle", "end")
TWO_DIGITS, THREE_DIGITS = 10, 100

Figures = Mapping[str, Any]


def number(name: str) -> Callable[[Figures], str]:
    """Return what shows a figure with about three digits."""
    return lambda figures: digits(figures[name])


def share(of: str) -> Callable[[Figures], str]:
    """Return what shows how many of the facts at each of the three places."""
    return lambda figures: (
        " / ".join(str(figures[f"{of}, {place}"]) for place in PLACES) + f" of {figures['facts at each place']}"
    )


def counts(*names: str) -> Callable[[Figures], str]:
    """Return what shows several whole numbers."""
    return lambda figures: " / ".join(str(figures[name]) for name in names)


ROWS: dict[str, Callable[[Figures], str]] = {
    "version": lambda figures: str(figures["version"]),
    "start to tools/list answered, s": number("start, s"),
    "memory at rest, after searches, MB": number("memory, MB"),
    "tools": number("tools"),
    "tokens of the list of tools": number("tokens of the tools"),
    "store of a note, ms": number("note, ms"),
    "store of a 20,000-character report, ms": number("report, ms"),
    "search, ms": number("search, ms"),
    "tokens of an answer with five results": number("tokens of an answer"),
    "asked by name, fact shown: start / middle / end": share("shown, name"),
    "asked in other words, fact shown": share("shown, paraphrase"),
    "asked by name, right report among the results": share("right report, name"),
    "asked in other words, right report": share("right report, paraphrase"),
    "similar findings: stored / acknowledged / there": counts("similar", "similar acknowledged", "similar there"),
    "several processes: stored / acknowledged / acknowledged and there": counts(
        "together", "together acknowledged", "together acknowledged and there"
    ),
}


def markdown(report: Mapping[str, Any]) -> str:
    """Return what ran the benchmark, the table with a column for each server, and what failed."""
    peers = report["peers"]
    lines = [["", *peers], ["---"] * (len(peers) + 1)]
    lines += [[name, *(cell(show, figures) for figures in peers.values())] for name, show in ROWS.items()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    failures = [
        f"- {name}: {part}: {figures[part]}" for name, figures in peers.items() for part in figures if "failed" in part
    ]
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    return "\n\n".join([f"{machine}.", table, *(["\n".join(failures)] if failures else [])])


def cell(show: Callable[[Figures], str], figures: Figures) -> str:
    """Return the text of a cell, empty if nothing was measured."""
    try:
        return show(figures)
    except KeyError:
        return ""


def digits(value: float) -> str:
    """Return a number with three significant digits or so."""
    if isinstance(value, int) or value >= THREE_DIGITS:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= TWO_DIGITS else f"{value:.2f}"


def write_into_docs(text: str) -> None:
    """Put the table between the marks in docs/lab/comparison.md."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
