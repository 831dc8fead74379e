"""Agents that store through servers, whatever happens to those: each repeats a call until it is acknowledged."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from servers import Server

SESSION = "s"

MAY_BE_SAID = (
    "The database server cannot be reached",
    "The connection to the database server was lost",
    "No server of the database URL accepts changes",
    "Another transaction of the database server kept the memory locked",
    "This process stopped for too long",
    "The disk of the database server is full",
    "The database server has no connections left",
)
"""The failures that an agent may be told of. Each of them asks for a repetition, or for what makes one useful."""


def content(number: int) -> str:
    """Return the text of a memory."""
    return f"# Memory {number}\n\nThe ledger was locked {number} times."


class Served:
    """A server process on a database that is killed and started again, and the calls that wait for its answers."""

    def __init__(self, folder: Path, url: str, variables: Mapping[str, str]) -> None:
        self._start = lambda: Server(folder, url=url, **variables)
        self._sending = threading.Lock()
        self._answers: dict[tuple[int, int], dict[str, Any]] = {}
        self._came = threading.Condition()
        self._server: Server | None = None
        self._reading: list[threading.Thread] = []
        self.log: list[bytes] = []
        self.starts = 0
        self.restart()

    def restart(self) -> None:
        """Kill the server, if it runs, and start another one."""
        with self._sending:
            self.stop()
            self._server = self._start().hello()
            self.starts += 1
            self._reading = [
                threading.Thread(target=target, args=(self._server,), daemon=True)
                for target in (self._receive, self._listen)
            ]
            for thread in self._reading:
                thread.start()

    def stop(self) -> None:
        """Kill the server, in the middle of whatever it does."""
        if self._server is not None:
            self._server.process.kill()
            for thread in self._reading:
                thread.join()
            self._server.__exit__(None, None, None)

    def send_signal(self, number: int) -> None:
        """Send a signal to the server."""
        self._server.process.send_signal(number)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the structured answer; None: the server was killed."""
        with suppress(OSError):
            with self._sending:
                server = self._server
                key = (self.starts, server.ask_tool(tool, **arguments))
            with self._came:
                while key not in self._answers:
                    if server.process.poll() is not None or server is not self._server:
                        return None
                    self._came.wait(0.2)
                return self._answers.pop(key)
        return None

    def _receive(self, server: Server) -> None:
        start = self.starts
        with suppress(EOFError, ValueError, OSError):
            while True:
                message = server.receive()
                if "id" in message:
                    with self._came:
                        self._answers[start, message["id"]] = message["result"]["structuredContent"]
                        self._came.notify_all()

    def _listen(self, server: Server) -> None:
        """Keep the log. A server whose errors nobody reads stops when the pipe is full."""
        assert server.process.stderr is not None
        self.log += server.process.stderr


class Agents:
    """Agents of several servers, what was acknowledged to them, and one that looks what is new.

    `stored`: the id by the number of the memory. `seen`: ids in the order in which the cursor passed them.
    """

    def __init__(self, servers: list[Served]) -> None:
        self.servers = servers
        self.stored: dict[int, int] = {}
        self.seen: list[int] = []
        self.unexpected: list[str] = []
        self.failures = 0
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._all_is_stored = threading.Event()

    @contextmanager
    def at_work(self, writers: int) -> Iterator[None]:
        """Let so many agents of each server store during the block, and one look."""
        with ThreadPoolExecutor(len(self.servers) * writers + 1) as pool:
            running = [
                pool.submit(self._store_all, server, f"a{place}-{writer}")
                for place, server in enumerate(self.servers)
                for writer in range(writers)
            ]
            looking = pool.submit(self._look)
            try:
                yield
            finally:
                self._ended.set()
                wait(running)
                self._all_is_stored.set()
        for each in (*running, looking):
            each.result()

    def store_more(self, count: int) -> bool:
        """Wait until so many more memories are acknowledged."""
        enough, give_up = len(self.stored) + count, time.monotonic() + 60
        while len(self.stored) < enough and time.monotonic() < give_up:
            time.sleep(0.01)
        return len(self.stored) >= enough

    def _store_all(self, server: Served, agent: str) -> None:
        while not self._ended.is_set():
            number = next(self._numbers)
            memory = {"agent_id": agent, "session_id": SESSION, "content": content(number)}
            memory_id = self._repeated(lambda memory=memory: server.call("store_report", **memory))["memory_id"]
            self.stored[number] = memory_id

    def _look(self) -> None:
        cursor: str | None = None
        while True:
            last = self._all_is_stored.is_set()
            since = {} if cursor is None else {"since": cursor}
            server = self.servers[len(self.seen) % len(self.servers)]
            new = self._repeated(
                lambda server=server, since=since: server.call("search_changes", session_id=SESSION, limit=100, **since)
            )
            self.seen += [memory["id"] for memory in new["results"]]
            cursor = new["cursor"]
            if last and not new["has_more"]:
                return

    def _repeated(self, call: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        """Return the first answer that acknowledges the call, or says that it was acknowledged before."""
        while True:
            answer = call()
            if answer is not None:
                if answer["success"] or "already exists" in answer["message"]:
                    return answer
                if not answer["message"].startswith(MAY_BE_SAID):
                    self.unexpected.append(answer["message"])
            self.failures += 1
            time.sleep(0.05)


def losses(found: Mapping[int, str], agents: Agents) -> list[str]:
    """Return how the memories of a database, by id, differ from what was acknowledged and what the cursor passed."""
    texts = list(found.values())
    return [
        *(f"memory {number} is lost" for number, key in agents.stored.items() if found.get(key) != content(number)),
        *(f"{text[:20]!r} is stored twice" for text in set(texts) if texts.count(text) > 1),
        *(f"the cursor missed {key}" for key in found.keys() - set(agents.seen)),
        *(["the cursor passed ids twice or in another order"] if agents.seen != sorted(set(agents.seen)) else []),
        *agents.unexpected,
    ]
