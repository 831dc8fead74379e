"""Whether what was just stored is found at once and first, by the server that stored it and by another one.

    uv run benchmarks/performance/fresh.py [--servers 6] [--stores 8] [--before 200] [--words 60] [--backlog 0]
        [--spin 0]

Real servers share a file with notes that have vectors. Each stores notes of nearly the same words, and searches for a
sentence of each at once; then half of them store, and the others search. `--backlog`: reports of 5,000 tokens whose
vectors are still to be computed then. `--spin`: processes that keep the processors busy.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from client import Server
from texts import report, sentence
from timing import summary

SESSION = "fresh"
LIMIT = 5


class Fresh:
    """Counts where fresh notes are found, and how long stores and searches take."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.times: dict[str, list[float]] = defaultdict(list)

    def store(self, server: Server, text: str) -> int:
        """Store a note and return its id."""
        began = time.perf_counter()
        answer = server.call("store_working_memory", agent_id="a", session_id=SESSION, content=text)
        self.times["store"].append((time.perf_counter() - began) * 1000)
        return int(answer["memory_id"])

    def search(self, who: str, server: Server, query: str, memory_id: int) -> None:
        """Search for a note by one of its sentences."""
        began = time.perf_counter()
        answer = server.call(
            "search_working_memory_specific_chunks", query=query, session_id=SESSION, limit=LIMIT, neighbours=0
        )
        self.times[f"search by {who}"].append((time.perf_counter() - began) * 1000)
        found = {hit["memory_id"]: (place, hit) for place, hit in reversed(list(enumerate(answer["results"])))}
        place, hit = found.get(memory_id, (None, None))
        self.counts[who]["missing" if place is None else "found" if place else "first"] += 1
        self.counts[who]["without similarity"] += hit is not None and hit["similarity"] is None


def note(source: np.random.Generator, words: int) -> str:
    """Return a note of about so many words."""
    return " ".join(sentence(source) for _ in range(max(1, words // 13)))


def work(fresh: Fresh, who: str, storing: Server, asking: Server, texts: Sequence[str]) -> None:
    """Store notes with one server, and search for each at once with another one, or with the same."""
    for text in texts:
        memory_id = fresh.store(storing, text)
        fresh.search(who, asking, text.partition(". ")[0], memory_id)


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """Keep processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def compare(fresh: Fresh, servers: Sequence[Server], options: argparse.Namespace) -> None:
    """Fill the file, and then let all servers store and search."""
    source = np.random.default_rng(1)

    def notes(count: int) -> list[str]:
        return [note(source, options.words) for _ in range(count)]

    for text in notes(options.before):
        servers[0].call("store_working_memory", agent_id="a", session_id=SESSION, content=text)
    while servers[0].call("get_session_stats", session_id=SESSION)["without_vectors"]:
        time.sleep(0.5)
    for number in range(options.backlog):
        servers[0].call("store_report", agent_id="a", session_id="backlog", content=report(number))
    pairs = {
        "the same server": list(zip(servers, servers, strict=True)),
        "another server": list(zip(servers[::2], servers[1::2], strict=False)),
    }
    with ThreadPoolExecutor(len(servers)) as threads:
        for who, both in pairs.items():
            tasks = [threads.submit(work, fresh, who, *pair, notes(options.stores)) for pair in both]
            for task in tasks:
                task.result()
    lacking = servers[0].call("get_session_stats", session_id="backlog")["without_vectors"]
    print(f"still without vectors at the end: {lacking} of {options.backlog} reports")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"servers": 6, "stores": 8, "before": 200, "words": 60, "backlog": 0, "spin": 0}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options, fresh = parser.parse_args(), Fresh()
    with tempfile.TemporaryDirectory() as folder:
        servers = [Server(Path(folder) / "memory.db") for _ in range(options.servers)]
        for server in servers:
            server.initialize()
        with spinning(options.spin):
            compare(fresh, servers, options)
        for server in servers:
            server.stop()
    for who, counts in fresh.counts.items():
        kinds = ("first", "found", "missing", "without similarity")
        print(f"{who}: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    for what, times in fresh.times.items():
        print(f"{what}: " + ", ".join(f"{name} {value:.0f}" for name, value in summary(times).items()) + " (ms)")


if __name__ == "__main__":
    main()
