# ruff: noqa: S311 - what is chosen at random is no secret
"""The server over HTTP beside the same server over standard input and output, and what happens under load.

    uv run --group benchmark benchmarks/over_http.py [PART ...] [--seconds 10] [--clients 100] [--minutes 1]
        [--postgres FOLDER] [--json FILE] [--docs]

Parts: callers (searches by 1, 8 and 32 callers at once over HTTP, and by one over standard input and output in turn
with one over HTTP), stores (searches while 48 others store reports of 5,000 tokens without a pause), writers (notes
stored by one and by eight at once) and mixed (many clients search, store and read; then the memory is compared with
what was acknowledged); default: all. Every part has a
server of its own. The storing callers soon exceed VECTOR_MEMORY_MAX_PENDING_VECTORS: then their receipts wait, up to 40
seconds, and so does the end of that part. With --postgres the namespaces are in a database whose server keeps its data
in FOLDER, which must have a short path. --docs writes the tables into docs/http.md. The exit code is 1 if a call
failed or anything was lost.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "performance"))

from client import ROOT, Server
from cluster import running
from tables import table, write_block
from texts import report
from timing import summary

from http_clients import NAMESPACE, OTHER, HttpServer, Load, repeated, store_first

STORED_FIRST = 40
CALLERS = (1, 8, 32)
WORKERS = 2
STORERS = 48
WRITERS = 8
DIFFERENT_REPORTS = 50
SEARCHES, STORES = 0.6, 0.2
"""Shares of the mixed load; the rest reads by id."""

MOST_OVERHEAD_MS, MOST_TIMES_STDIO, MOST_WAITING_MS, MOST_BEHIND_STORES_MS, LEAST_A_SECOND = 3, 8, 400, 250, 100

PAGE = ROOT / "docs" / "http.md"

Figures = dict[str, Any]


def callers(options: argparse.Namespace, folder: Path) -> Figures:
    """Measure searches by one caller over both transports in turn, and by several over HTTP."""
    figures: Figures = {}
    with started(options, folder / "one") as server:
        local, over_http = Server(folder / "local.db"), server.caller()
        local.initialize()
        store_first(local.call, over_http.call, count=STORED_FIRST)
        alternating = {"stdio, 1 caller": (Load(), local.call), "HTTP, 1 caller": (Load(), over_http.call)}
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            for load, call in alternating.values():
                load.search(call)
        figures |= {name: summary(load.times["search"]) for name, (load, _) in alternating.items()}
        local.stop()
        figures |= at_once(server, "HTTP", options.seconds)
    with started(options, folder / "several", "--workers", str(WORKERS)) as server:
        store_first(server.caller().call, count=STORED_FIRST)
        figures |= at_once(server, f"HTTP, {WORKERS} workers", options.seconds)
    return figures


def started(options: argparse.Namespace, folder: Path, *flags: str) -> HttpServer:
    """Start a server whose namespaces are in a folder, or in a new database."""
    url = options.cluster.create_database(f"over_http_{time.time_ns()}") if options.cluster else None
    return HttpServer(folder, *flags, url=url)


def at_once(server: HttpServer, name: str, seconds: float) -> Figures:
    """Measure searches by several callers at once."""
    figures: Figures = {}
    for count in CALLERS[1:]:
        load, many = Load(), [server.caller() for _ in range(count)]
        before = server.cpu_seconds()
        with repeated(count, lambda number, load=load, many=many: load.search(many[number].call)):
            time.sleep(seconds)
        times = load.times["search"]
        spent = (server.cpu_seconds() - before) * 1000 / len(times)
        figures[f"{name}, {count} callers"] = {**summary(times), "a second": len(times) / seconds, "CPU ms": spent}
        assert not load.failures, load.failures[:3]
    return figures


def stores(options: argparse.Namespace, folder: Path) -> Figures:
    """Measure searches of two namespaces while others store reports of 5,000 tokens in one without a pause."""
    texts = [report(number) for number in range(DIFFERENT_REPORTS)]
    with started(options, folder) as server:
        storers = [server.caller() for _ in range(STORERS)]
        searchers = {name: server.caller(name) for name in (NAMESPACE, OTHER)}
        store_first(*(searcher.call for searcher in searchers.values()), count=STORED_FIRST)
        load = Load()
        with repeated(STORERS, lambda number: load.store_report(storers[number].call, random.choice(texts))):
            time.sleep(1)
            until = time.monotonic() + options.seconds
            while time.monotonic() < until:
                for name, searcher in searchers.items():
                    load.search(searcher.call, name)
    assert not load.failures, load.failures[:3]
    return {kind: summary(times) for kind, times in load.times.items()}


def writers(options: argparse.Namespace, folder: Path) -> Figures:
    """Let one caller and several in turn store notes, in one namespace and in two."""
    figures: Figures = {}
    with started(options, folder, "--workers", str(WORKERS)) as server:
        store_first(server.caller().call, count=STORED_FIRST)
        for names in ((NAMESPACE,), (NAMESPACE, OTHER)):
            loads = {count: Load() for count in (1, WRITERS)}
            for count, load in [*loads.items()] * 2:
                many = [server.caller(names[number % len(names)]) for number in range(count)]
                with repeated(count, lambda number, load=load, many=many: load.store_note(many[number].call)):
                    time.sleep(options.seconds / 2)
                assert not load.failures, load.failures[:3]
            named = "one namespace" if len(names) == 1 else f"{len(names)} namespaces"
            figures |= {
                f"{named}, {count} at once": {
                    **summary(load.times["store"]),
                    "a second": len(load.stored) / options.seconds,
                }
                for count, load in loads.items()
            }
    return figures


def mixed(options: argparse.Namespace, folder: Path) -> Figures:
    """Let many clients search, store and read, and compare the memory with what was acknowledged."""
    seconds, load = options.minutes * 60, Load()
    with started(options, folder) as server:
        store_first(server.caller().call, count=STORED_FIRST)
        many = [server.caller() for _ in range(options.clients)]

        def work(number: int) -> None:
            chance, call = random.random(), many[number].call
            if chance < SEARCHES:
                load.search(call)
            elif chance < SEARCHES + STORES:
                load.store_note(call)
            else:
                load.read(call)

        taken = []
        with repeated(options.clients, work):
            for _ in range(3):
                time.sleep(seconds / 3)
                taken.append(server.memory_mb("VmRSS"))
        peak = server.memory_mb("VmHWM")
        there = server.texts()
    calls = sum(map(len, load.times.values()))
    return {
        "clients": options.clients,
        "minutes": options.minutes,
        "calls": calls,
        "a second": calls / seconds,
        "failed": len(load.failures),
        "first failures": load.failures[:3],
        "stored": len(load.stored),
        "lost": sum(there.get(number) != text for number, text in load.stored.items()),
        "MB after each third": taken,
        "peak MB": peak,
        **{kind: summary(times) for kind, times in load.times.items()},
    }


PARTS: dict[str, Callable[[argparse.Namespace, Path], Figures]] = {
    "callers": callers,
    "stores": stores,
    "writers": writers,
    "mixed": mixed,
}


def tables(figures: Figures) -> Iterator[str]:
    """Yield the tables, and at the end which goals were met."""
    goals: list[list[str]] = []
    if one := figures.get("callers"):
        rows = [[name, span(row), rate(row.get("a second")), rate(row.get("CPU ms"))] for name, row in one.items()]
        yield table(["searches", "ms, p50 / p95", "a second", "processor ms of the server, each"], rows)
        local, alone = (one[f"{way}, 1 caller"]["p50"] for way in ("stdio", "HTTP"))
        most = local * MOST_TIMES_STDIO
        name = f"HTTP, {WORKERS} workers, {CALLERS[-1]} callers"
        took = 1000 / one[name]["a second"]
        goals.append(goal(f"HTTP takes {MOST_OVERHEAD_MS} ms more at most, p50", alone - local, MOST_OVERHEAD_MS))
        goals += [
            goal(f"{many}: at most {MOST_TIMES_STDIO} x stdio, p50", row["p50"], most)
            for many, row in one.items()
            if many.endswith(f"{CALLERS[-1]} callers")
        ]
        goals.append(goal(f"{name}: {LEAST_A_SECOND} searches a second, so for each", took, 1000 / LEAST_A_SECOND))
        goals.append(goal(f"{name}, p95", one[name]["p95"], MOST_WAITING_MS))
    if two := figures.get("stores"):
        names = {NAMESPACE: "search of the same namespace", OTHER: "search of another", "store": "a receipt"}
        rows = [[named, span(two[kind]), rate(two[kind]["max"])] for kind, named in names.items()]
        yield table([f"while {STORERS} callers store reports of 5,000 tokens", "ms, p50 / p95", "max"], rows)
        worst = max(two[name]["p95"] for name in (NAMESPACE, OTHER))
        goals.append(goal(f"searches while {STORERS} others store, p95", worst, MOST_BEHIND_STORES_MS))
    if written := figures.get("writers"):
        rows = [[name, span(row), rate(row["a second"])] for name, row in written.items()]
        yield table([f"notes stored, {WORKERS} workers", "ms, p50 / p95", "a second"], rows)
    if three := figures.get("mixed"):
        head = f"{three['clients']} clients, {three['minutes']:g} min, {three['calls']:,} calls"
        rows = [[kind, span(three[kind]), rate(three[kind]["max"])] for kind in ("search", "store", "read")]
        yield table([head, "ms, p50 / p95", "max"], rows)
        taken = ", ".join(f"{value:.0f}" for value in three["MB after each third"])
        yield (
            f"Failed: {three['failed']} calls. Acknowledged: {three['stored']:,} stores; lost: {three['lost']}. "
            f"Memory after each third: {taken} MB; at most {three['peak MB']:.0f} MB."
        )
    if goals:
        yield table(["goal", "at most, ms", "measured", ""], goals)


def goal(name: str, measured: float, most: float) -> list[str]:
    """Return a row of the table of goals."""
    return [name, f"{most:.0f}", f"{measured:.1f}", "met" if measured <= most else "missed"]


def span(figures: Figures) -> str:
    """Return the median and the 95th percentile."""
    return f"{rate(figures['p50'])} / {rate(figures['p95'])}"


def rate(value: float | None) -> str:
    """Return a number with a digit after the point if it is small; an empty text for None."""
    return "" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def main() -> None:
    """Measure, print the tables, and write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement of the first two parts")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1, help="of the mixed load")
    parser.add_argument("--postgres", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true", help="write docs/http.md")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    figures: Figures = {"CPUs": os.cpu_count(), "load before": round(os.getloadavg()[0], 1)}
    with running(options.postgres) if options.postgres else nullcontext() as options.cluster:
        for name in options.parts or PARTS:
            with tempfile.TemporaryDirectory() as scratch:
                figures[name] = PARTS[name](options, Path(scratch))
    text = "\n\n".join([f"CPUs {figures['CPUs']}, load before {figures['load before']}.", *tables(figures)])
    print(text)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    if options.docs:
        write_block(text, page=PAGE)
    sys.exit(any(figures.get("mixed", {}).get(what) for what in ("failed", "lost")))


if __name__ == "__main__":
    main()
