"""From figures to Markdown tables, and into the documentation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_tables
import straight
from cells import cell, number, table
from client import ROOT
from searching import GRAINS
from starting import EMPTY, OURS

PAGE = ROOT / "docs" / "lab" / "performance.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
BLOCKS = {
    "measured": ("start", "store", "threads", "receipt", "receipts", "lock", "processes"),
    "searches": ("search",),
    "straight": ("straight",),
    "engines": ("engines",),
}
"""The parts whose tables are replaced together."""

OTHERS = ("original server", "vec0, no filter", "numpy floor")
TWO_DIGITS = 10


def markdown(report: dict[str, Any]) -> str:
    """Return all tables that the report has figures for."""
    made = {
        "start": start,
        "store": store,
        "threads": threads,
        "receipt": receipt,
        "receipts": receipts,
        "lock": lock,
        "processes": processes,
        "search": search,
        "straight": straight.tables,
        "engines": engine_tables.of,
    }
    tables = [lines for name, table in made.items() if name in report for lines in table(report[name])]
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    return "\n\n".join([f"{machine}.", *tables])


def write_into_docs(report: dict[str, Any]) -> None:
    """Put the tables that the report has figures for into the page."""
    for block, names in BLOCKS.items():
        part = {name: report[name] for name in names if name in report}
        if part:
            write_block(markdown({"machine": report["machine"], **part}), block)


def write_block(text: str, block: str = "measured", page: Path = PAGE) -> None:
    """Put a text between the marks of a block in a page. Raises ValueError if it has no such block."""
    begin, end = BEGIN.format(block), END.format(block)
    content = page.read_text(encoding="utf-8")
    first, last = content.index(begin) + len(begin), content.index(end)
    page.write_text(f"{content[:first]}\n{text}\n{content[last:]}", encoding="utf-8")


def start(figures: dict[str, Any]) -> Iterator[str]:
    """Both servers' start, and the ratio."""
    rows = []
    for what, ours in figures[OURS].items():
        empty = figures[EMPTY].get(what)
        ratio = f"{ours['p50'] / empty['p50']:.2f}" if empty else ""
        rows.append([what, cell(ours), cell(empty), ratio])
    yield table(["start, ms unless said otherwise: p50 / p95", OURS, EMPTY, "ratio"], rows)


def store(figures: dict[str, Any]) -> Iterator[str]:
    """Say what storing costs."""
    rows = [[what, *(cell(one[what]) for one in figures.values())] for what in next(iter(figures.values()))]
    yield table(["store, twenty reports there: processor ms, p50 / p95; a receipt in ms", *figures], rows)


def threads(figures: dict[str, Any]) -> Iterator[str]:
    """Several stores at once in one process."""
    yield table(
        ["reports of 5,000 tokens stored", "a minute"],
        [[name, number(one["reports a minute"])] for name, one in figures.items()],
    )


def receipt(figures: dict[str, Any]) -> Iterator[str]:
    """Say what an agent waits for when it stores."""
    rows = [[what, *(cell(one[what]) for one in figures.values())] for what in next(iter(figures.values()))]
    yield table(["ms, p50 / p95; the receipt comes", *figures], rows)


def receipts(figures: dict[str, Any]) -> Iterator[str]:
    """Several servers that store at once."""
    totals = ("s to the last receipt", "s to the last vector", "processor s")
    rows = [
        [way, f"{one['runs']:.0f}", cell(one), *(number(one[what]) for what in totals)] for way, one in figures.items()
    ]
    yield table(["8 servers; the receipt comes", "reports", "a receipt, ms, p50 / p95", *totals], rows)


def lock(figures: dict[str, Any]) -> Iterator[str]:
    """How long a store holds the write lock."""
    yield table(
        ["a very long report", "chunks", "passages", "processor ms in the write lock, p50 / p95"],
        [[name, f"{one['chunks']:,}", f"{one['passages']:,}", cell(one)] for name, one in figures.items()],
    )


def processes(figures: dict[str, Any]) -> Iterator[str]:
    """Several servers on one file."""
    rows = [[name, number(one["stores a second"]), cell(one), number(one["MB each"])] for name, one in figures.items()]
    yield table(["servers on one file", "stores a second", "a store, ms, p50 / p95", "MB each"], rows)


def search(figures: dict[str, Any]) -> Iterator[str]:
    """Tables of searches: ours next to the others in each scope, the grains, filters, memory and files."""
    sizes = list(figures)
    scopes = list(figures[sizes[0]]["searches"])
    yield table(
        [
            "fine search beyond embedding, processor ms, p50 / p95",
            "passages in the file",
            "in the scope",
            "ours",
            *OTHERS,
        ],
        (
            [
                scope,
                f"{int(size):,}",
                f"{figures[size]['passages'][scope]:,}",
                *(
                    cell(figures[size]["searches"][scope][way]) + shortage(figures[size]["searches"][scope][way])
                    for way in ("fine", *OTHERS)
                ),
            ]
            for scope in scopes
            for size in sizes
        ),
    )
    yield table(
        ["every grain beyond embedding, processor ms, p50", "passages in the file", *GRAINS],
        (
            [scope, f"{int(size):,}", *(number(figures[size]["searches"][scope][grain]["p50"]) for grain in GRAINS)]
            for scope in scopes
            for size in sizes
        ),
    )
    embedding = [figures[size]["searches"][scope]["fine"]["embedding p50"] for scope in scopes for size in sizes]
    yield f"Embedding the query takes {number(min(embedding))} to {number(max(embedding))} ms more (medians)."
    yield table(
        ["passages in the file", *(f"a filter for {share}" for share in figures[sizes[-1]]["filters"]), "no filter"],
        (
            [
                f"{int(size):,}",
                *(cell(each["fine"]) for each in figures[size]["filters"].values()),
                cell(figures[size]["searches"]["one kind, everything"]["fine"]),
            ]
            for size in sizes
        ),
    )
    yield table(
        [
            "passages in the file",
            "file, MB",
            "server after searches, MB",
            "its own",
            "peak",
        ],
        (
            [
                f"{int(size):,}",
                number(figures[size]["file"]["MB"]),
                *(number(figures[size]["memory"][name]) for name in ("now", "its own", "peak")),
            ]
            for size in sizes
        ),
    )


def shortage(figures: dict[str, float]) -> str:
    """Say how many of ten were found, if not all."""
    found = figures.get("found of 10", 10)
    return f" ({number(found)} of 10 found)" if found < TWO_DIGITS else ""
