"""What is measured of each server, always in the same order, with the same texts."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from adapters import Peer
from client import Server
from environments import OFFLINE, Environment, furnish
from texts import PLACES, Material, Planted

from vector_memory.texts.tokens import find_token_counter, has_cl100k

Figures = dict[str, Any]

CHARACTERS_PER_TOKEN = 4.66
TOKENS = "cl100k_base" if has_cl100k() else f"characters / {CHARACTERS_PER_TOKEN}"
SECONDS_TO_LISTEN = 60


class Measurement:
    """One server: where it is installed, where its home folders come to be, and what it is given."""

    def __init__(self, peer: Peer, environment: Environment, models: dict[str, Path], folder: Path) -> None:
        self._peer = peer
        self._environment = environment
        self._models = models
        self._homes = (folder / f"home {number}" for number in count())

    def measure(self, material: Material, runs: int, processes: int) -> Figures:
        """Return all figures; for a part that failed, `<part> failed` with the error."""
        figures: Figures = {}
        parts: dict[str, Callable[[], Figures]] = {
            "starting": lambda: self.starting(runs),
            "finding": lambda: self.finding(material),
            "similar": lambda: self.similar(material.similar),
            "together": lambda: self.together(material.facts, processes),
        }
        for name in self._peer.parts:
            began = time.perf_counter()
            try:
                figures |= parts[name]()
            except (OSError, EOFError, KeyError, TypeError) as error:
                figures[f"{name} failed"] = f"{type(error).__name__}: {error}"
            figures[f"{name}, seconds in all"] = time.perf_counter() - began
        return figures

    def starting(self, runs: int) -> Figures:
        """Start it some times. The first start of all, in which it may set up its files, does not count."""
        home = self._new_home()
        seconds = []
        with self._beside(home):
            for _ in range(runs + 1):
                with self._server(home) as server:
                    tools = server.tools()
                    seconds.append(server.elapsed())
        shown = [{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools]
        return {
            "start, s": median(seconds[1:]),
            "tools": len(tools),
            "tokens of the tools": tokens(json.dumps(shown, separators=(",", ":"), ensure_ascii=False)),
        }

    def finding(self, material: Material) -> Figures:
        """Store notes, then reports, and ask for every fact in both ways."""
        home = self._new_home()
        with self._server(home) as server:
            server.tools()
            self._peer.search(server, "which service holds the lock")  # so that its model is loaded
            note_ms, notes = self._timed_stores(server, material.notes, home, 0)
            report_ms, reports = self._timed_stores(server, [each.report for each in material.reports], home, 1_000)
            background = server.settle()
            figures = {
                "note, ms": median(note_ms),
                "notes acknowledged": notes,
                "report, ms": median(report_ms),
                "reports acknowledged": reports,
                "at rest after, s": background,
                **self._questions(server, material.reports),
            }
            server.settle()
            return {**figures, "memory, MB": server.memory_mb()}

    def _timed_stores(self, server: Server, texts: list[str], home: Path, first: int) -> tuple[list[float], int]:
        times, stored = [], 0
        for number, text in enumerate(texts, first):
            began = time.perf_counter()
            stored += self._peer.store(server, text, number, home)
            times.append((time.perf_counter() - began) * 1000)
        return times, stored

    def _questions(self, server: Server, reports: list[Planted]) -> Figures:
        times, sizes = [], []
        figures: Figures = {}
        for asked_by in ("name", "paraphrase"):
            for place in PLACES:
                shown, right = [], []
                for each in (report for report in reports if report.place == place):
                    began = time.perf_counter()
                    answer = self._peer.search(server, getattr(each, asked_by))
                    times.append((time.perf_counter() - began) * 1000)
                    sizes.append(answer.size)
                    text = "\n".join(answer.texts())
                    shown.append(each.fact in text)
                    right.append(shown[-1] or any(line in text for line in each.lines))
                figures[f"shown, {asked_by}, {place}"] = sum(shown)
                figures[f"right report, {asked_by}, {place}"] = sum(right)
        figures["facts at each place"] = len(reports) // len(PLACES)
        return {**figures, "search, ms": median(times), "tokens of an answer": median(sizes) / CHARACTERS_PER_TOKEN}

    def similar(self, findings: list[str]) -> Figures:
        """Store findings that resemble each other, and see which are there for a server started afterwards."""
        home = self._new_home()
        with self._server(home) as server:
            server.tools()
            acknowledged = sum(self._peer.store(server, text, number, home) for number, text in enumerate(findings))
            server.settle()
        return {
            "similar": len(findings),
            "similar acknowledged": acknowledged,
            "similar there": len(self._there(home, findings)),
        }

    def together(self, facts: list[str], processes: int) -> Figures:
        """Let several servers store different texts on one file at once, and see which are there afterwards."""
        home = self._new_home()
        with self._server(home) as server:  # sets up its files
            server.tools()
        share = len(facts) // processes
        with self._beside(home), ThreadPoolExecutor(processes) as threads:
            stored = list(
                threads.map(
                    lambda first: self._store_some(home, facts[first : first + share], first),
                    range(0, share * processes, share),
                )
            )
        acknowledged = {text for texts in stored for text in texts}
        there = self._there(home, facts[: share * processes])
        return {
            "together": share * processes,
            "together acknowledged": len(acknowledged),
            "together there": len(there),
            "together acknowledged and there": len(there & acknowledged),
        }

    def _store_some(self, home: Path, texts: list[str], first: int) -> list[str]:
        with self._server(home) as server:
            server.tools()
            stored = [text for number, text in enumerate(texts, first) if self._peer.store(server, text, number, home)]
            server.settle()
        return stored

    def _there(self, home: Path, texts: list[str]) -> set[str]:
        with self._server(home) as server:
            server.tools()
            stored = self._peer.listing(server, len(texts))
        return {text for text in texts if any(text in each for each in stored)}

    def _new_home(self) -> Path:
        home = next(self._homes)
        furnish(home, self._peer.models, self._models)
        return home

    def _server(self, home: Path) -> Server:
        return Server(self._peer.command(self._environment, home), self._settings(home), home)

    def _settings(self, home: Path) -> dict[str, str]:
        return {"HOME": str(home), **OFFLINE, **self._peer.settings}

    @contextmanager
    def _beside(self, home: Path) -> Iterator[None]:
        if not (companion := self._peer.companion(self._environment)):
            yield
            return
        command, port = companion
        silent = subprocess.DEVNULL
        settings = {**os.environ, **self._settings(home)}
        with subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, env=settings) as process:
            try:
                wait_for(port)
                yield
            finally:
                process.terminate()


def wait_for(port: int) -> None:
    """Wait until something listens on a port of this machine."""
    give_up = time.monotonic() + SECONDS_TO_LISTEN
    while time.monotonic() < give_up:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


def tokens(text: str) -> int:
    """Return the number of tokens of a text, counted as `TOKENS` says."""
    return find_token_counter(None)(text) if has_cl100k() else round(len(text) / CHARACTERS_PER_TOKEN)
