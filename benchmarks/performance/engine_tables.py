"""Tables of both storage engines."""

from collections.abc import Iterator
from typing import Any

from cells import cell, number, table

SQLITE, POSTGRES, DISTANT = ENGINES = ("SQLite", "PostgreSQL", "PostgreSQL, 1 ms away")
SEARCHED = (*ENGINES, *(f"{name} without late interaction" for name in (SQLITE, POSTGRES)))


def of(figures: dict[str, Any]) -> Iterator[str]:
    """All tables."""
    passages = figures["passages"]
    yield table(
        [f"fine search beyond embedding, {passages:,} passages, ms, p50 / p95", *SEARCHED, "round trips"],
        [
            [what, *(cell(each[name]) for name in SEARCHED), f"{each[POSTGRES]['round trips']:.0f}"]
            for what, each in figures["searches"].items()
        ],
    )
    yield table(
        ["store beyond embedding, ms, p50 / p95", *ENGINES],
        [[what, *(cell(each[name]) for name in ENGINES)] for what, each in figures["stores"].items()],
    )
    counts = list(figures["processes"][SQLITE])
    yield table(
        ["short prompts stored a second, without embedding", *(f"{count} processes" for count in counts), "ratio"],
        [
            [name, *(number(each[count]) for count in counts), f"{each[counts[-1]] / each[counts[0]]:.2f}"]
            for name, each in figures["processes"].items()
        ],
    )
    sizes = figures["sizes"]
    yield table(
        [f"{passages:,} passages", SQLITE, POSTGRES],
        [
            ["on disk, MB", *(number(sizes[name]["MB"]) for name in (SQLITE, POSTGRES))],
            ["copied by `vector-memory copy`, s", "", number(sizes[POSTGRES]["seconds to copy"])],
        ],
    )
    yield from index(figures["index"])


def index(figures: dict[str, Any]) -> Iterator[str]:
    """Compare the index of vectors with exact comparison."""
    yield f"Index of vectors: {number(figures['MB'])} MB, built in {number(figures['seconds to build'])} s."
    yield table(
        ["the 200 nearest passages, ms, p50 / p95", "passages", "exact", "index of vectors", "recall@10"],
        [
            [f"filter for {name}" if "%" in name else name, f"{each['passages']:,}",
             cell(each["exact"]), cell(each["index"]), f"{each['recall']:.3f}"]
            for name, each in figures["scopes"].items()
        ],
    )  # fmt: skip
