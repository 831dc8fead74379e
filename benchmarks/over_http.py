# ruff: noqa: S311 - what is chosen at random is no secret
"""The server over HTTP beside the same server over standard input and output, and what happens under load.

    uv run --group benchmark benchmarks/over_http.py [--seconds 10] [--clients 100] [--minutes 1] [--json FILE]

Prints three tables: searches by 1, 8 and 32 callers at once over HTTP, and by one over standard input and output, in
turn; searches while 48 others store reports without a pause; and a mixed load by many clients, after which the memory
is compared with what was acknowledged. The exit code is 1 if a call failed or anything was lost.
"""

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "performance"))

import httpx2
from client import Server
from texts import QUESTIONS, prompt, report
from timing import summary

from vector_memory.settings import DATABASE_NAME
from vector_memory.tenancy.callers import Permission
from vector_memory.tenancy.folders import FolderRegistry
from vector_memory.tenancy.tokens import token_file

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
STORED_FIRST = 40
CALLERS = (1, 8, 32)
STORERS = 48
SEARCHES, STORES = 0.6, 0.2
"""Shares of the mixed load; the rest reads by id."""


class HttpServer:
    """The real server process with one namespace, and a token for it."""

    def __init__(self, folder: Path, *flags: str) -> None:
        FolderRegistry(folder).create("team")
        self.secret = token_file(folder).create("benchmark", "team", Permission.ADMIN)
        self.database = folder / "namespaces" / "team" / DATABASE_NAME
        command = [sys.executable, "-m", "vector_memory", "serve", "--http", "--port", "0", "--data-dir", str(folder)]
        self.process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "Serving " in line)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.url = line.partition("Serving ")[2].strip()

    def caller(self) -> "Caller":
        """Return one client with a connection of its own."""
        return Caller(self.url, self.secret)

    def peak_mb(self) -> float:
        """Return the largest memory that the process has taken."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)


class Caller:
    """A client in the newer protocol era."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._client = httpx2.Client(timeout=120, headers={"Authorization": f"Bearer {secret}"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = self._client.post(self._url, json=body, headers=headers)
        text = answer.text if answer.headers["content-type"].startswith("application/json") else last_event(answer.text)
        return dict(json.loads(text)["result"]["structuredContent"])


def last_event(stream: str) -> str:
    """Return the data of the last event of a stream."""
    return next(line[6:] for line in reversed(stream.splitlines()) if line.startswith("data: "))


@dataclass
class Load:
    """What many threads have done: latencies in seconds by kind of call, what was stored, and what failed."""

    times: dict[str, list[float]] = field(default_factory=dict)
    stored: dict[int, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def timed(self, kind: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Make a call, note how long it took, and whether it failed."""
        began = time.perf_counter()
        try:
            answer = call()
        except httpx2.HTTPError as error:
            answer = {"success": False, "message": type(error).__name__}
        self.times.setdefault(kind, []).append(time.perf_counter() - began)
        if not answer["success"]:
            self.failures.append(f"{kind}: {answer['message']}")
        return answer

    def search(self, call: Callable[..., dict[str, Any]]) -> None:
        """Search."""
        self.timed("search", lambda: call("search_reports_specific_chunks", query=random.choice(QUESTIONS)))

    def store(self, call: Callable[..., dict[str, Any]], text: str) -> None:
        """Store a report."""
        place = {"agent_id": "a", "session_id": f"s{len(text) % 7}"}
        answer = self.timed("store", lambda: call("store_report", content=text, **place))
        if answer["success"]:
            self.stored[answer["memory_id"]] = text


@contextmanager
def repeated(count: int, work: Callable[[int], None]) -> Iterator[None]:
    """Run `work(number)` over and over in so many threads during the block."""
    stopping = threading.Event()

    def run(number: int) -> None:
        while not stopping.is_set():
            work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    yield
    stopping.set()
    for thread in threads:
        thread.join()


def measure_callers(server: HttpServer, folder: Path, seconds: float) -> dict[str, Any]:
    """Measure searches by one caller over both transports in turn, and by several over HTTP."""
    local = Server(folder / "local.db")
    local.initialize()
    over_http = server.caller()
    for number in range(STORED_FIRST):
        for call in (local.call, over_http.call):
            call("store_report", agent_id="a", session_id="s", content=report(number, 3))
    alternating = {"stdio, 1 caller": Load(), "HTTP, 1 caller": Load()}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alternating["stdio, 1 caller"].search(local.call)
        alternating["HTTP, 1 caller"].search(over_http.call)
    local.stop()
    figures = {name: summary(load.times["search"]) for name, load in alternating.items()}
    for count in CALLERS:
        load, callers = Load(), [server.caller() for _ in range(count)]
        with repeated(count, lambda number, load=load, callers=callers: load.search(callers[number].call)):
            time.sleep(seconds)
        times = load.times["search"]
        figures[f"HTTP, {count} callers"] = {**summary(times), "a second": len(times) / seconds}
        assert not load.failures, load.failures[:3]
    return figures


def measure_behind_stores(server: HttpServer, seconds: float) -> dict[str, Any]:
    """Measure searches while others store reports of 5,000 tokens without a pause."""
    load, callers = Load(), [server.caller() for _ in range(STORERS)]

    def store(number: int) -> None:
        load.store(callers[number].call, report(random.randrange(10**9)))

    searching, searcher = Load(), server.caller()
    with repeated(STORERS, store):
        time.sleep(1)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            searching.search(searcher.call)
    assert not load.failures, load.failures[:3]
    return {"search": summary(searching.times["search"]), "store": summary(load.times["store"])}


def measure_mixed(server: HttpServer, clients: int, seconds: float) -> dict[str, Any]:
    """Let many clients search, store and read, and compare the memory with what was acknowledged."""
    load, callers = Load(), [server.caller() for _ in range(clients)]

    def work(number: int) -> None:
        chance, call = random.random(), callers[number].call
        if chance < SEARCHES:
            load.search(call)
        elif chance < SEARCHES + STORES:
            load.store(call, f"{prompt(random.randrange(10**9))} {random.random()}")
        elif load.stored:
            wanted = random.choice(list(load.stored))
            load.timed("read", lambda: call("get_memory_by_id", memory_id=wanted))

    with repeated(clients, work):
        time.sleep(seconds)
    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        there = dict(connection.execute("select id, content from session_memories"))
    lost = [number for number, text in load.stored.items() if there.get(number) != text]
    calls = sum(map(len, load.times.values()))
    return {
        "calls": calls,
        "failed": len(load.failures),
        "first failures": load.failures[:3],
        "stored": len(load.stored),
        "lost": len(lost),
        "peak MB": server.peak_mb(),
        **{kind: summary(times) for kind, times in load.times.items()},
    }


def main() -> None:
    """Measure, print the figures, and write the requested file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        server = HttpServer(Path(scratch) / "data")
        figures = {
            "load before": os.getloadavg()[0],
            "callers": measure_callers(server, Path(scratch), options.seconds),
            "behind stores": measure_behind_stores(server, options.seconds),
            "mixed": measure_mixed(server, options.clients, options.minutes * 60),
        }
        server.stop()
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    sys.exit(bool(figures["mixed"]["failed"] or figures["mixed"]["lost"]))


if __name__ == "__main__":
    main()
