"""What an agent waits for: start, store and search of the real server over stdio, beside the figures of the seeds.

    uv run benchmarks/server.py [--chunks 10000] [--runs 5] [--json FILE]

The file that is searched holds `--chunks` chunks in ten sessions. Their vectors are those of real sentences with noise
added, because embedding 10,000 chunks takes half an hour; what is stored and asked while the clock runs is embedded by
the model. Every figure is the median over the runs, measured at the client's end of the pipe.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vector_memory.embedding import Embedder, Vectors, load_embedder
from vector_memory.session_memory_store import SessionMemoryStore
from vector_memory.settings import Settings
from vector_memory.values import Span

ROOT = Path(__file__).parent.parent
CHUNKS_PER_DOCUMENT = 10
SESSIONS = 10
NOISE = 0.02
QUERIES = [
    "why did the nightly job fail",
    "which service holds the lock",
    "how long are snapshots kept",
    "who is allowed to restart the proxy",
    "what happens when a token expires",
]
SEED_FIGURES = {
    "start to tools/list": "5-7 s (model first)",
    "start to first search": "5-7 s",
    "store a 5,000-token report": "1.2 s",
    "fine search": "315 ms",
    "medium search": "500-1,500 ms",
    "coarse search": "50-200 ms",
    "memory after start": "160 MB",
    "memory at peak": "440 MB",
}


class NoisyEmbedder:
    """Gives each text the vector of a real sentence, with noise: as fast as random, shaped like language."""

    def __init__(self, real: Embedder) -> None:
        self.fingerprint = real.fingerprint
        self.max_pieces = real.max_pieces
        self._real = real
        sentences = [sentence for text in documents(40) for sentence in text.split(". ")]
        self._pool = real.embed(sorted(set(sentences))[:500])
        self._random = np.random.default_rng(5)

    def piece_spans(self, text: str) -> list[Span]:
        """Return the real engine's word pieces."""
        return self._real.piece_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a noisy vector for each text."""
        chosen = self._pool[self._random.integers(len(self._pool), size=len(texts))]
        noisy = chosen + self._random.normal(0, NOISE, chosen.shape).astype(np.float32)
        return noisy / np.linalg.norm(noisy, axis=1, keepdims=True)


class Server:
    """The real server process, spoken to line by line."""

    def __init__(self, database: Path) -> None:
        self.started = time.perf_counter()
        command = [sys.executable, str(ROOT / "main.py"), "serve", "--database-path", str(database)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._number = 0

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(self._pipe("stdout").readline())
            if answer.get("id") == self._number:
                return dict(answer["result"])

    def initialize(self) -> None:
        """Shake hands as MCP clients do."""
        client = {"name": "benchmark", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer, which has to be a success."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return dict(result["structuredContent"])

    def memory_mb(self, field: str) -> float:
        """Return VmRSS (now) or VmHWM (peak) in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field))

    def elapsed_ms(self) -> float:
        """Return the time since the process was started."""
        return (time.perf_counter() - self.started) * 1000

    def stop(self) -> None:
        """Hang up."""
        self._pipe("stdin").close()
        self._process.wait(10)

    def _send(self, message: dict[str, Any]) -> None:
        pipe = self._pipe("stdin")
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    def _pipe(self, name: str) -> Any:
        return getattr(self._process, name)


def documents(count: int) -> list[str]:
    """Return documents of about `CHUNKS_PER_DOCUMENT` chunks, each different."""
    subjects = ["proxy", "ledger", "index", "queue", "snapshot", "token", "shard", "invoice", "cache", "scheduler"]
    verbs = ["waits for", "replaces", "reads", "rejects", "outlives", "locks", "repeats", "forgets"]
    source = np.random.default_rng(3)

    def sentence() -> str:
        first, second, third = source.choice(subjects, 3)
        return f"The {first} {source.choice(verbs)} the {second} of the {third} after {source.integers(99)} seconds."

    def section(number: int) -> str:
        return f"## Part {number}\n\n" + " ".join(sentence() for _ in range(22)) + "\n"

    return [f"# Document {n}\n\n" + "\n".join(map(section, range(CHUNKS_PER_DOCUMENT))) for n in range(count)]


def fill(path: Path, chunk_count: int) -> int:
    """Store documents until there are `chunk_count` chunks, and return how many there are."""
    stored = 0
    embedder = NoisyEmbedder(load_embedder(Settings()))
    texts = documents(-(-chunk_count // CHUNKS_PER_DOCUMENT))
    with SessionMemoryStore(path, Settings(sqlite_synchronous="NORMAL"), embedder=embedder) as store:
        for number, text in enumerate(track(texts, description="filling", transient=True)):
            receipt = store.store_memory("report", text, session_id=f"session-{number % SESSIONS}", agent_id="filler")
            stored += receipt.chunks_created or 0
    return stored


def report_of_5000_tokens(number: int) -> str:
    """Return a report that no other equals."""
    text = f"# Report {number}\n\n" + "\n".join(documents(3)).replace("Part", f"Part {number}-")
    return text[: 5000 * 9 // 2]


def measure(path: Path, runs: int) -> dict[str, float]:
    """Run the real server `runs` times over the file and return the medians, in ms and MB."""
    rounds = [one_round(path, number) for number in track(range(runs), description="measuring", transient=True)]
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def one_round(path: Path, number: int) -> dict[str, float]:
    """Start a server, use every grain, and stop it."""
    figures: dict[str, float] = {}
    server = Server(path)
    server.initialize()
    server.request("tools/list")
    figures["start to tools/list"] = server.elapsed_ms()
    server.call("search_reports_specific_chunks", query=f"first question {number}", session_id="session-1")
    figures["start to first search"] = server.elapsed_ms()
    figures["memory after start"] = server.memory_mb("VmRSS")
    text = report_of_5000_tokens(number)
    figures["store a 5,000-token report"] = timed(
        lambda: server.call("store_report", agent_id="a", session_id="bench", content=text)
    )
    prompt = f"What did the scheduler do on day {number}?"
    figures["store a prompt"] = timed(
        lambda: server.call("store_input_prompt", session_id="bench", session_iter=1, content=prompt)
    )
    for grain, tool in (("fine", "specific_chunks"), ("medium", "section_context"), ("coarse", "full_documents")):
        for where, scope in (("one session", {"session_id": "session-1"}), ("all sessions", {})):
            figures[f"{grain} search, {where}"] = statistics.median(
                timed(lambda: server.call(f"search_reports_{tool}", query=query, **scope))  # noqa: B023 - called at once
                for query in (f"{question} {number} {where} {grain}" for question in QUERIES)
            )
    figures["memory at peak"] = server.memory_mb("VmHWM")
    server.stop()
    return figures


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds an action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def print_table(figures: dict[str, float], chunk_count: int) -> None:
    """Print the figures beside those of the seeds."""
    table = Table(title=f"{chunk_count:,} chunks, medians")
    for column in ("what", "measured", "seeds"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for name, value in figures.items():
        unit = "MB" if name.startswith("memory") else "ms"
        table.add_row(name, f"{value:,.1f} {unit}", SEED_FIGURES.get(name) or SEED_FIGURES.get(name.split(",")[0], ""))
    Console().print(table)


def main() -> None:
    """Fill a file, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        chunk_count = fill(path, arguments.chunks)
        figures = {**measure(path, arguments.runs)}
        print_table(figures, chunk_count)
        Console().print(f"file: {path.stat().st_size / 2**20:,.0f} MB")
    if arguments.json:
        arguments.json.write_text(json.dumps({"chunks": chunk_count, **figures}, indent=1))


if __name__ == "__main__":
    main()
