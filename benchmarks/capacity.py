"""What a team, a company and a service need: a simulated month of their agents, with slopes that were measured.

    uv run python -m benchmarks.capacity

Prints the tables of "Capacity" in docs/scale.md. A test fails if the page has others.
"""

import math
from typing import NamedTuple

import numpy as np

WORKING_DAYS = 22
SECONDS = 9 * 3_600
"""Of a working day. Its rate rises and falls as a half wave."""

RECALL = 2.0
"""Searches for each store: before an agent begins, and while it works."""

REPORTS = 0.25
"""Of all stores. The others are short prompts and notes."""

SESSION = 2_500
"""Passages of the session that a search names."""

# Measured: docs/scale.md names the tables.
TOKENS_OF_PASSAGE = 5_000 / 59
BYTES_OF_PASSAGE = 4_000 + 2_700
EMBEDDED_TOKENS = 170 * 5_000 / 60 / 2
"""Each second, by one core."""
SERVER_MS_OF_SEARCH = 15
DATABASE_MS_OF_STORE, DATABASE_MS_OF_TOKEN = 1.6, (4.8 - 1.6) / 5_000
DATABASE_MS_OF_SEARCH, DATABASE_MS_OF_PASSAGE = 1.0, 40 / 50_000

LEAST = 0.1

MOST: dict[str, float] = {"namespaces": 1_000, "cores": 16, "GB": 2_000, "connections": 500, "writer": 1.0}
"""What one primary is given here: namespaces as "By number of namespaces" advises, and a common machine."""


class Load(NamedTuple):
    """Who uses the memory. `stores`: of an agent on a working day. `skew`: of the namespaces, as Zipf's exponent."""

    name: str
    agents: int
    namespaces: int
    stores: float
    skew: float


LOADS = (
    Load("a team of 50, two agents each", 100, 5, 40, 0.5),
    Load("a company of 5,000, two agents each", 10_000, 300, 40, 0.8),
    Load("a service with 1,000,000 agents", 1_000_000, 100_000, 10, 1.0),
)


class Month(NamedTuple):
    """What a month adds, and its busiest second: of stores, searches, and cores that are at work."""

    memories: int
    gigabytes: float
    largest: float
    stores: float
    searches: float
    embedding: float
    serving: float
    database: float
    writer: float


def simulate(load: Load, random: np.random.Generator) -> Month:
    """Let agents store and search through one day, and count the month as days like it.

    Vectors may be late, so embedding needs the cores of the busiest hour. All else needs those of the second that only
    one in 10,000 exceeds.
    """
    day = load.agents * load.stores
    rate = day / SECONDS * np.pi / 2 * np.sin(np.linspace(0, np.pi, SECONDS))
    stores, searches = random.poisson(rate), random.poisson(rate * RECALL)
    sizes = np.where(
        random.random(100_000) < REPORTS, random.lognormal(7.3, 0.8, 100_000), random.lognormal(4.1, 0.8, 100_000)
    )
    passages = np.ceil(sizes / TOKENS_OF_PASSAGE).mean()
    shares = 1 / np.arange(1, load.namespaces + 1) ** load.skew
    largest = shares[0] / shares.sum()
    store = (DATABASE_MS_OF_STORE + DATABASE_MS_OF_TOKEN * sizes.mean()) / 1_000
    search = (DATABASE_MS_OF_SEARCH + DATABASE_MS_OF_PASSAGE * SESSION) / 1_000
    busy_stores, busy_searches = np.quantile(stores, 0.9999), np.quantile(searches, 0.9999)
    hour = stores.reshape(-1, 3_600).sum(axis=1).max() / 3_600
    memories = day * WORKING_DAYS
    return Month(
        memories=int(memories),
        gigabytes=memories * passages * BYTES_OF_PASSAGE / 1e9,
        largest=memories * passages * largest / 1e6,
        stores=busy_stores,
        searches=busy_searches,
        embedding=hour * sizes.mean() / EMBEDDED_TOKENS,
        serving=busy_searches * SERVER_MS_OF_SEARCH / 1_000,
        database=busy_stores * store + busy_searches * search,
        writer=busy_stores * largest * store,
    )


def rounded(number: float) -> str:
    """Return a number with two digits: the slopes are not known better."""
    if number < LEAST:
        return f"under {LEAST}"
    digits = 1 - math.floor(math.log10(number))
    return f"{round(number, digits):,.{max(0, min(digits, 1))}f}"


def used(load: Load, month: Month, months: int = 12) -> dict[str, float]:
    """Return which part of what one primary has is in use after a year."""
    processes = math.ceil((month.embedding + month.serving) / 2)
    needed = {
        "namespaces": load.namespaces,
        "cores": month.database,
        "GB": month.gigabytes * months,
        "connections": processes * 10,
        "writer": month.writer,
    }
    return {name: number / MOST[name] for name, number in needed.items()}


def table() -> str:
    """Return what each needs, in Markdown."""
    months = [simulate(load, np.random.default_rng(1)) for load in LOADS]
    rows: list[tuple[str, list[str]]] = [
        ("namespaces", [f"{load.namespaces:,}" for load in LOADS]),
        ("memories a month", [rounded(month.memories) for month in months]),
        ("GB a month, without copies", [rounded(month.gigabytes) for month in months]),
        ("passages of the largest namespace a month, million", [rounded(month.largest) for month in months]),
        ("stores in a busy second", [rounded(month.stores) for month in months]),
        ("searches in a busy second", [rounded(month.searches) for month in months]),
        ("cores that embed stored texts", [rounded(month.embedding) for month in months]),
        ("cores that serve searches", [rounded(month.serving) for month in months]),
        ("cores of database servers", [rounded(month.database) for month in months]),
        ("part of a second in which the largest namespace is written", [rounded(month.writer) for month in months]),
    ]
    parts = [used(load, month) for load, month in zip(LOADS, months, strict=True)]
    rows.append(("primaries after a year", [str(math.ceil(max(part.values()))) for part in parts]))
    rows.append(("the limit that one primary meets first", [max(part, key=part.__getitem__) for part in parts]))
    head = ["", *(load.name for load in LOADS)]
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


if __name__ == "__main__":
    print(table())
