"""Compares the memory over Markdown files with the specified targets: `uv run benchmarks/file_memory.py [FOLDER]`.

A real server on a copy of 20 files of the folder (default: this project's docs), spoken to over standard input and
output. Prints a Markdown table.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
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


class Server:
    """A server over the memory folder of a project."""

    def __init__(self, project: Path, indexes: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "main.py"), "serve", "--toolsets", "files", "--log-level", "ERROR"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CLAUDE_PROJECT_DIR": str(project), "VECTOR_MEMORY_DB_DIR": str(indexes)},
        )
        self._request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer."""
        answer = self._request("tools/call", name=tool, arguments=arguments)
        return dict(answer["result"]["structuredContent"])

    def megabytes(self, field: str) -> float:
        """Return a field of /proc/PID/status: VmHWM (largest so far), RssAnon (its own, without mapped files)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field))

    def close(self) -> None:
        """Hang up."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _request(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._send({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "id" in message:
                return message
        raise EOFError

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


CLIENT = {"name": "benchmark", "version": "1"}


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
        server = Server(memory.parent, indexes)
        first = until(server, lambda status: status["files"] == len(chosen) and is_complete(status)) - began
        pieces = server.call("memory_status")["chunks"]
        searches = sorted(seconds_of(server, question) for _ in range(ROUNDS) for question in QUESTIONS)
        changed = seconds_until_found(server, memory)
        megabytes = server.call("memory_status")["dbSizeBytes"] / 1e6
        peak, own = server.megabytes("VmHWM"), server.megabytes("RssAnon")
        server.close()
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
