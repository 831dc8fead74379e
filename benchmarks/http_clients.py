# ruff: noqa: S311 - what is chosen at random is no secret
"""The real server over HTTP, its clients, and what many of them do at once."""

import http.client
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from texts import prompt, question, report

from vector_memory.domain.callers import Permission
from vector_memory.extras.postgres.engine import prepare_database
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import DEFAULT_DIM, DatabaseUrl

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NAMESPACE, OTHER = "team", "others"
PATIENCE_SECONDS = 120
IDLE_SECONDS = 3
"""The server closes connections that are idle for longer."""
MANY = 10**9


class HttpServer:
    """The real server process with two namespaces, and a token for each. `url`: of a database for them."""

    def __init__(self, folder: Path, *flags: str, url: str | None = None) -> None:
        if url:
            prepare_database(DatabaseUrl.parse(url), dimensions=DEFAULT_DIM)
            flags = (*flags, "--database-url", url)
        registry = Registry(DatabaseUrl.parse(url)) if url else Registry(folder)
        self._tokens = {}
        for name in (NAMESPACE, OTHER):
            registry.create(name)
            self._tokens[name] = registry.tokens.create(name, name, Permission.ADMIN)
        self._address = registry.address(NAMESPACE)
        registry.close()
        command = [sys.executable, "-m", "vector_memory", "serve", "--http", "--port", "0", "--data-dir", str(folder)]
        self.process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "Serving " in line)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.address = urlsplit(line.partition("Serving ")[2].strip()).netloc

    def __enter__(self) -> "HttpServer":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.terminate()
        self.process.wait(60)

    def texts(self) -> dict[int, str]:
        """Return what the first namespace holds, by id, read past the server."""
        if isinstance(self._address, DatabaseUrl):
            with psycopg.connect(self._address.conninfo()) as connection:
                connection.execute("select set_config('search_path', %s, true)", (self._address.schema,))
                return dict(connection.execute("select id, content from session_memories").fetchall())
        with closing(sqlite3.connect(f"file:{self._address}?mode=ro", uri=True)) as connection:
            return dict(connection.execute("select id, content from session_memories"))

    def caller(self, namespace: str = NAMESPACE) -> "Caller":
        """Return one client with a connection of its own."""
        return Caller(self.address, self._tokens[namespace])

    def memory_mb(self, what: str) -> float:
        """Return the memory that the process has now (VmRSS), or has taken at most (VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(what))

    def cpu_seconds(self) -> float:
        """Return the processor time of the process and its workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        clocks = (~process << 3 | 2 for process in map(int, (self.process.pid, *children)))  # clock_getcpuclockid(3)
        return sum(map(time.clock_gettime, clocks))


class Caller:
    """A client in the newer protocol era. It does as little as possible: it shares the machine with the server."""

    def __init__(self, address: str, secret: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
        self._used_at = time.monotonic()
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {secret}",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
        }

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()  # the next request opens it again
        self._connection.request("POST", "/mcp", body, {**self._headers, "Mcp-Name": tool})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        self._used_at = time.monotonic()
        if not str(answer.headers["content-type"]).startswith("application/json"):
            text = next(line[6:] for line in reversed(text.splitlines()) if line.startswith("data: "))
        return dict(json.loads(text)["result"]["structuredContent"])


Call = Callable[..., dict[str, Any]]


@dataclass
class Load:
    """What many threads have done: latencies in ms by kind of call, what was stored, and what failed."""

    times: dict[str, list[float]] = field(default_factory=dict)
    stored: dict[int, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def search(self, call: Call, kind: str = "search") -> None:
        """Ask what nobody has asked before."""
        query = question(random.randrange(MANY))
        self._timed(kind, lambda: call("search_reports_specific_chunks", query=query))

    def store_report(self, call: Call, text: str) -> None:
        """Store a report that no other equals."""
        self._store(call, f"{text}\n\nThe end of case {random.random()}.")

    def store_note(self, call: Call) -> None:
        """Store a short report."""
        self._store(call, f"{prompt(random.randrange(MANY))} {random.random()}")

    def read(self, call: Call) -> None:
        """Read something that was stored."""
        wanted = random.choice(list(self.stored)) if self.stored else 1
        self._timed("read", lambda: call("get_memory_by_id", memory_id=wanted))

    def _store(self, call: Call, text: str) -> None:
        place = {"agent_id": "a", "session_id": f"s{random.randrange(7)}"}
        answer = self._timed("store", lambda: call("store_report", content=text, **place))
        if answer["success"]:
            self.stored[answer["memory_id"]] = text

    def _timed(self, kind: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Make a call, note how long it took, and whether it failed."""
        began = time.perf_counter()
        try:
            answer = call()
        except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
            answer = {"success": False, "message": type(error).__name__}
        self.times.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
        if not answer["success"]:
            self.failures.append(f"{kind}: {answer['message']}")
        return answer


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


def store_first(*calls: Call, count: int) -> None:
    """Store some short reports in each memory, and wait until they can be found."""
    for number in range(count):
        for call in calls:
            call("store_report", agent_id="a", session_id="s", content=report(number, 3))
    for call in calls:
        while "lack" in (call("search_reports_specific_chunks", query="which service")["message"] or ""):
            time.sleep(0.1)
