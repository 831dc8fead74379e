"""Compares the memory over Markdown files with the specified targets: `uv run benchmarks/file_memory.py [FOLDER]`.

A real server on a copy of 20 files of the folder (default: this project's docs), spoken to over standard input and
output. Prints a Markdown table.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent / "performance"))

from client import ROOT, Server

FILES = 20
QUESTIONS = (
    "how to deploy behind a proxy",
    "what happens when the model is missing",
    "background tasks",
    "where is the database kept",
    "validation of a query parameter",
    "several processes at once",
    "cookie_param",
    "errors that clients see",
    "how are documents cut",
    "which licence",
)
ROUNDS = 5
PAUSE = 0.05


def main() -> None:
    """Measure and print."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    chosen = sorted(source.rglob("*.md"))[:FILES]
    with tempfile.TemporaryDirectory() as place:
        memory, indexes = Path(place, "project", "memory"), Path(place, "indexes")
        memory.mkdir(parents=True)
        for number, file in enumerate(chosen):
            shutil.copy(file, memory / f"{number:02}-{file.name}")
        size = sum(file.stat().st_size for file in memory.iterdir())
        began = time.perf_counter()
        server = Server(
            command=[sys.executable, str(ROOT / "main.py"), "serve", "--toolsets", "files"],
            settings={"CLAUDE_PROJECT_DIR": str(memory.parent), "VECTOR_MEMORY_DB_DIR": str(indexes)},
        )
        server.initialize()
        first = until(server, lambda status: status["files"] == len(chosen) and is_complete(status)) - began
        pieces = server.call("memory_status")["chunks"]
        searches = sorted(seconds_of(server, question) for _ in range(ROUNDS) for question in QUESTIONS)
        changed = seconds_until_found(server, memory)
        megabytes = server.call("memory_status")["dbSizeBytes"] / 1e6
        peak, own = server.memory_mb("VmHWM"), server.memory_mb("RssAnon")
        server.stop()
    print(f"{len(chosen)} files, {size / 1e3:,.0f} kB, {pieces} pieces; load average {os.getloadavg()[0]:.1f}\n")
    print("| What | Target | Measured |\n| --- | --- | --- |")
    print(f"| first index, from the start of the server | < 30 s | {first:.1f} s |")
    print(f"| one changed file found again by words and meaning, debounce included | < 3 s | {changed:.1f} s |")
    middle, late = statistics.median(searches), searches[int(len(searches) * 0.95)]
    print(f"| search, median / 95th percentile | < 500 ms | {middle * 1e3:.0f} / {late * 1e3:.0f} ms |")
    print(f"| size of the index | < 5 MB | {megabytes:.1f} MB |")
    print(f"| memory of the process: largest / its own | < 200 MB | {peak:.0f} / {own:.0f} MB |")


def is_complete(status: dict[str, Any]) -> bool:
    """Tell whether all words and vectors are there."""
    return bool(status["watching"] and not status["indexing"] and not status["chunksWithoutVectors"])


def until(server: Server, holds: Callable[[dict[str, Any]], bool]) -> float:
    """Return the moment at which the status is so."""
    while not holds(server.call("memory_status")):
        time.sleep(PAUSE)
    return time.perf_counter()


def seconds_of(server: Server, question: str) -> float:
    """Return how long a search takes."""
    began = time.perf_counter()
    server.call("memory_search", query=question)
    return time.perf_counter() - began


def seconds_until_found(server: Server, memory: Path) -> float:
    """Change a file and return how long it takes until its new text is indexed with its vectors."""
    file = sorted(memory.iterdir())[len(list(memory.iterdir())) // 2]
    text = file.read_text()
    middle = text.find("\n\n", len(text) // 2)
    began = time.perf_counter()
    file.write_text(f"{text[:middle]}\n\nThe launch code of the quokka is kumquat-77.{text[middle:]}")
    while "kumquat-77" not in str(server.call("memory_search", query="kumquat-77 quokka")["results"]):
        time.sleep(PAUSE)
    return until(server, lambda status: not status["chunksWithoutVectors"]) - began


if __name__ == "__main__":
    main()
