"""How fast everything is, and how cost grows: start-up, storing, searching, several processes, memory, file size.

uv run --group benchmark benchmarks/performance [PART ...] [--passages N ...] [--files DIR] [--json FILE] [--docs]

Parts: start, tools, store, receipt, receipts, lock, processes, search; default: all of these. Searching is measured
once for each number of passages, in a file made by benchmarks/scale.py, which is kept if --files names a folder. In the
same run: a FastMCP server with one empty tool, the original server's search, vec0 by itself, and a matrix product.
--docs writes the tables into docs/lab/performance.md and the plots into docs/images.

Of `start tools receipt search tests --passages 10000 --json benchmarks/performance/figures.json`, scripts/make_docs.py
makes the table of the README, and with the part `tests`, which runs all of them, the line on how long they take.

The part `straight`, if it is named, is the table of a search beside the original design, with goals; see straight.py.
`--before CHECKOUT` measures another checkout of this repository in the same run, in the parts store and straight.

The part `engines` compares SQLite and PostgreSQL in the largest of the files, if it is named.
"""

import vector_memory.server  # noqa: F401 - numpy as the server has it  # isort: skip

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acknowledging
import locking
import processes
import searching
import starting
import storing
import straight
from client import OUR_SERVER, ROOT, Server
from files import make, size_mb
from tables import markdown, write_into_docs
from timing import timed

import engines
from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings

PASSAGES = (1_000, 10_000, 100_000, 1_000_000)
PROCESSES = 8
STORES = 50
CHARACTERS_PER_TOKEN = 4.72
"""Of the list of all session tools, measured with cl100k_base."""

Report = dict[str, Any]


def start(options: argparse.Namespace, folder: Path) -> Report:
    """Measure start-up and idle memory."""
    return {"start": starting.measure(folder, options.runs)}


def tools(_options: argparse.Namespace, folder: Path) -> Report:
    """Count the tools of each profile, and the tokens of their list."""
    figures: Report = {}
    for profile in ("core", "full"):
        server = Server(command=[*OUR_SERVER, str(folder / "tools.db"), "--profile", profile])
        server.initialize()
        listed = server.request("tools/list")["tools"]
        server.stop()
        read = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in listed]
        size = len(json.dumps(read, separators=(",", ":"), ensure_ascii=False))
        figures[profile] = {"tools": len(listed), "tokens": round(size / CHARACTERS_PER_TOKEN)}
    return {"tools": figures}


def tests(_options: argparse.Namespace, _folder: Path) -> Report:
    """Say how many minutes the tests take, which all pass."""
    took = timed(
        lambda: subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    )
    return {"tests": {"minutes": took / 60_000}}


def store(options: argparse.Namespace, folder: Path) -> Report:
    """Measure storing, also by another checkout, and in several threads."""
    return {
        "store": storing.measure(checkouts_of(options), folder),
        "threads": storing.measure_threads(folder / "threads.db"),
    }


def receipt(_options: argparse.Namespace, folder: Path) -> Report:
    """Measure receipts that come before the vectors, and those that come after them."""
    return {"receipt": acknowledging.measure(folder)}


def receipts(_options: argparse.Namespace, folder: Path) -> Report:
    """Measure the receipts of eight servers that store at once."""
    return {"receipts": acknowledging.measure_together(folder, PROCESSES)}


def lock(options: argparse.Namespace, folder: Path) -> Report:
    """Measure how long storing a long report holds the write lock."""
    return {"lock": locking.measure(folder / "lock.db", options.documents)}


def share(options: argparse.Namespace, folder: Path) -> Report:
    """Measure storing by one process and by eight at once."""
    return {
        "processes": {
            f"{count} at once": processes.throughput(folder / f"{count}.db", count, options.stores)
            for count in (1, PROCESSES)
        }
    }


def search(options: argparse.Namespace, folder: Path) -> Report:
    """Measure searching, memory and file size for each number of passages."""
    engine = load_embedder(Settings())
    figures: Report = {}
    for passages in options.passages:
        path = (options.files or folder) / f"{passages}.db"
        began = time.perf_counter()
        if not path.exists():
            make(path, passages, options.documents, (options.files or folder) / "documents")
        made = time.perf_counter() - began
        figures[str(passages)] = {
            **searching.measure(path, engine, options.seconds),
            "memory": memory_of(path),
            "file": {"MB": size_mb(path), "seconds to make": made},
        }
        if options.files is None:
            path.unlink()
    return {"search": figures}


def memory_of(path: Path) -> dict[str, float]:
    """Return what a server takes, in MB, that has searched everything in all grains."""
    server = Server(path)
    server.initialize()
    for tool in ("specific_chunks", "section_context", "full_documents"):
        server.call(f"search_reports_{tool}", query="which service holds the lock")
    time.sleep(starting.SECONDS_TO_SETTLE)
    figures = {"now": server.memory_mb(), "its own": server.memory_mb("RssAnon"), "peak": server.memory_mb("VmHWM")}
    server.stop()
    return figures


def compare_engines(options: argparse.Namespace, folder: Path) -> Report:
    """Measure both storage engines with the same memories."""
    passages, place = max(options.passages), options.files or folder
    path = place / f"{passages}.db"
    if not path.exists():
        make(path, passages, options.documents, place / "documents")
    return {
        "engines": {"passages": passages, **engines.measure(path, place / f"pg{passages}", load_embedder(Settings()))}
    }


def checkouts_of(options: argparse.Namespace) -> dict[str, Path]:
    """Return the checkouts that are measured in the same run."""
    return {"ours": ROOT} | ({"before": options.before.resolve()} if options.before else {})


def straight_through(options: argparse.Namespace, folder: Path) -> Report:
    """Measure a search beside the original design, and beside another checkout."""
    place, rounds = options.files or folder, options.rounds
    figures = straight.measure(checkouts_of(options), options.passages, place, options.documents, rounds)
    return {"straight": figures, "load after": round(os.getloadavg()[0], 1)}


PARTS: dict[str, Callable[[argparse.Namespace, Path], Report]] = {
    "start": start,
    "tools": tools,
    "store": store,
    "receipt": receipt,
    "receipts": receipts,
    "lock": lock,
    "processes": share,
    "search": search,
    "straight": straight_through,
    "engines": compare_engines,
    "tests": tests,
}
UNLESS_NAMED = ("straight", "engines", "tests")
"""Parts that run only if they are named."""


def machine() -> Report:
    """Say what ran the benchmark, and how busy it was with other things before."""
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    commit = subprocess.run(command, check=False, capture_output=True, text=True)
    return {
        "commit": commit.stdout.strip(),
        "processor": platform.machine(),
        "CPUs": os.cpu_count(),
        "Python": platform.python_version(),
        "load before": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure the parts, print the tables, and write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--passages", type=int, nargs="+", default=PASSAGES)
    parser.add_argument("--files", type=Path, help="folder in which the files that are searched are kept")
    parser.add_argument(
        "--documents", type=Path, default=ROOT / "docs", help="Markdown that files and reports are made of"
    )
    parser.add_argument("--runs", type=int, default=5, help="starts of each server")
    parser.add_argument("--rounds", type=int, default=3, help="of the part straight, after the first")
    parser.add_argument("--before", type=Path, help="another checkout, for store and straight")
    parser.add_argument("--stores", type=int, default=STORES, help="of each process")
    parser.add_argument("--seconds", type=float, default=1.0, help="at most, for each way of searching a scope")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true", help="write docs/lab/performance.md and docs/images")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if "engines" in options.parts and max(options.passages) < engines.RARE:
        parser.error(f"the part engines filters for one passage in {engines.RARE:,}, so it needs that many")
    if options.files is not None:
        options.files.mkdir(parents=True, exist_ok=True)
    report: Report = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.parts or [part for part in PARTS if part not in UNLESS_NAMED]:
            report |= PARTS[name](options, Path(folder))
    print(markdown(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    if options.docs:
        write_into_docs(report)
        from plots import draw  # noqa: PLC0415 - only figures for the page need Matplotlib

        draw(report)


if __name__ == "__main__":
    main()
