"""Several servers on one file, as when several agents work at once: whether anything is lost, and who waits for whom.

    uv run benchmarks/performance/processes.py [--processes 8] [--stores 50] [--model toy] [--hold 5] [--json FILE]

Each process is a real server over stdio, and is kept busy without a pause: it stores, reads what another process has
stored, searches and deletes. One text in ten is stored by all of them. Then another process holds the file's write lock
for `--hold` seconds, while all servers search and store. At last the file is compared with what was acknowledged. The
exit code is 1 if anything was lost, doubled or changed, or any call failed.

With `--model toy` storing costs little else than the database, with the default model what it costs an agent.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from client import Server
from rich.console import Console
from rich.table import Table
from timing import Figures, summary, timed

SHARED_EVERY = 10
DELETE_EVERY = 5
SECTIONS = 4


@dataclass
class Ledger:
    """What the servers have acknowledged, how long they took for it, and what they refused."""

    texts: dict[int, str] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    shared: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)

    def newest(self) -> int | None:
        """Return the memory that was stored last, by whichever process, unless it is gone already."""
        return next((number for number in reversed(list(self.texts)) if number not in self.deleted), None)


class Agent:
    """One agent with a server of its own, which uses it without a pause."""

    def __init__(self, number: int, path: Path, ledger: Ledger) -> None:
        self.number = number
        self._ledger = ledger
        self._own: list[int] = []
        self._server = Server(path)
        self._server.initialize()

    def work(self, first: int, last: int) -> None:
        """Store the memories of the numbers from `first` to before `last`, and read, search and delete between."""
        for count in range(first, last):
            shared = count % SHARED_EVERY == 0
            self.store(f"All of them found {count}." if shared else text(self.number, count), shared=shared)
            self.read_newest()
            self.search(f"what did agent {self.number} find in {count}")
            if count % DELETE_EVERY == DELETE_EVERY - 1:
                self.delete_oldest()

    def store(self, content: str, *, shared: bool = False) -> None:
        """Store a text: at a place of the agent's own, or where every agent stores it."""
        who = "all" if shared else f"agent-{self.number}"
        answer = self._call("store", "store_report", agent_id=who, session_id="busy", content=content)
        memory_id = answer.get("memory_id")
        if memory_id is None or not (answer["success"] or shared):
            self._ledger.failures.append(f"store: {answer['error']}: {answer['message']}")
        elif shared:
            self._ledger.shared[content].add(memory_id)
        else:
            self._ledger.texts[memory_id] = content
            self._own.append(memory_id)

    def read_newest(self) -> None:
        """Read what some agent stored last; it may have been deleted meanwhile."""
        memory_id = self._ledger.newest()
        if memory_id is None:
            return
        answer = self._call("read", "get_memory_by_id", memory_id=memory_id)
        if not answer["success"]:
            if memory_id not in self._ledger.deleted:
                self._ledger.failures.append(f"read: {answer['message']}")
        elif answer["memory"]["content"] != self._ledger.texts[memory_id]:
            self._ledger.failures.append(f"read: memory {memory_id} is not what was stored")

    def search(self, query: str, *, name: str = "search") -> None:
        """Search everything."""
        answer = self._call(name, "search_reports_specific_chunks", query=query)
        if not answer["success"]:
            self._ledger.failures.append(f"search: {answer['error']}: {answer['message']}")

    def search_until(self, released: threading.Event) -> None:
        """Search as long as the lock is held."""
        while not released.is_set():
            self.search(f"what did agent {self.number} find at {time.monotonic()}", name="search while locked")

    def stop(self) -> None:
        """End the server."""
        self._server.stop()

    def memory_mb(self) -> float:
        """Return the server's resident memory."""
        return self._server.memory_mb()

    def delete_oldest(self) -> None:
        """Delete the oldest memory of the agent's own. From now on others may find it gone."""
        memory_id = self._own.pop(0)
        self._ledger.deleted.add(memory_id)
        answer = self._call("delete", "delete_memory", memory_id=memory_id)
        if not answer["success"]:
            self._ledger.failures.append(f"delete: {answer['error']}: {answer['message']}")

    def _call(self, name: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        took = timed(
            lambda: answer.update(
                self._server.request("tools/call", name=tool, arguments=arguments)["structuredContent"]
            )
        )
        self._ledger.times[name].append(took)
        return answer


def text(agent: int, count: int) -> str:
    """Return a report of some sections that no other equals."""
    parts = [
        f"## Part {part}\n\nAgent {agent} found in {count} that shard {agent * count + part} waits for the proxy.\n"
        for part in range(SECTIONS)
    ]
    return f"# Finding {count} of agent {agent}\n\n" + "\n".join(parts)


def in_parallel(agents: list[Agent], action: Callable[[Agent], None]) -> None:
    """Let all agents do something at the same time."""
    with ThreadPoolExecutor(len(agents)) as threads:
        for _ in threads.map(action, agents):
            pass


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold the file's write lock, as a process does that is stuck in the middle of a transaction."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(30_000)
    connection.execute("begin immediate")
    yield
    connection.execute("rollback")
    connection.close()


def use_while_locked(path: Path, agents: list[Agent], seconds: float) -> None:
    """Hold the lock: the first agent stores, all others search."""
    released = threading.Event()
    with ThreadPoolExecutor(len(agents)) as threads:
        with write_lock(path):
            waiting = threads.submit(agents[0].store, "Stored while another process held the lock.")
            searching = [threads.submit(agent.search_until, released) for agent in agents[1:]]
            time.sleep(seconds)
        released.set()
        for future in (waiting, *searching):
            future.result()


def differences(path: Path, ledger: Ledger) -> dict[str, int]:
    """Compare the file with the acknowledged memories."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = dict(connection.execute("select id, content from session_memories"))
    whole = connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
    kept = {number: content for number, content in ledger.texts.items() if number not in ledger.deleted}
    shared = {number: content for content, numbers in ledger.shared.items() for number in numbers}
    return {
        "lost": len((kept | shared).keys() - rows.keys()),
        "changed": sum(rows.get(number, content) != content for number, content in (kept | shared).items()),
        "doubled": sum(len(numbers) - 1 for numbers in ledger.shared.values()),
        "still there though deleted": len(ledger.deleted & rows.keys()),
        "there though never acknowledged": len(rows.keys() - kept.keys() - shared.keys()),
        "failed calls": len(ledger.failures),
        "damaged files": int(not whole),
    }


def measure(path: Path, processes: int, stores: int, hold: float) -> tuple[Ledger, float]:
    """Let the agents work, then hold the lock; return their receipts, and the seconds they worked."""
    ledger = Ledger()
    with ThreadPoolExecutor(processes) as threads:
        agents = list(threads.map(lambda number: Agent(number, path, ledger), range(processes)))
    # The first calls load the model and the token table: that is a matter of benchmarks/performance.
    in_parallel(agents, lambda agent: agent.work(0, 1))
    ledger.times.clear()
    began = time.perf_counter()
    in_parallel(agents, lambda agent: agent.work(1, stores))
    worked = time.perf_counter() - began
    busy = ledger.times.pop("store")
    use_while_locked(path, agents, hold)
    ledger.times["store while locked"] = ledger.times.pop("store")
    ledger.times["store"] = busy
    in_parallel(agents, Agent.stop)
    return ledger, worked


def throughput(path: Path, processes: int, stores: int) -> Figures:
    """Let this many servers only store; the first call of each does not count."""
    ledger = Ledger()
    with ThreadPoolExecutor(processes) as threads:
        agents = list(threads.map(lambda number: Agent(number, path, ledger), range(processes)))
    in_parallel(agents, lambda agent: agent.store(text(agent.number, 0)))
    ledger.times.clear()
    began = time.perf_counter()
    in_parallel(agents, lambda agent: [agent.store(text(agent.number, count)) for count in range(1, stores + 1)])
    seconds = time.perf_counter() - began
    figures = summary(ledger.times["store"])
    memory = sum(agent.memory_mb() for agent in agents) / processes
    in_parallel(agents, Agent.stop)
    assert not ledger.failures, ledger.failures[:3]
    return figures | {"stores a second": processes * stores / seconds, "MB each": memory}


def print_tables(title: str, figures: dict[str, Figures], wrong: dict[str, int], ledger: Ledger) -> None:
    """Print how long calls took, and what went wrong."""
    console = Console()
    table = Table("what", "calls", "p50 ms", "p95 ms", "max ms", title=title)
    for name, values in figures.items():
        table.add_row(name, f"{values['runs']:.0f}", *(f"{values[key]:,.1f}" for key in ("p50", "p95", "max")))
    console.print(table)
    kept = len(ledger.texts) - len(ledger.deleted) + len(ledger.shared)
    console.print(f"acknowledged and kept: {kept}, deleted: {len(ledger.deleted)}")
    console.print(", ".join(f"{what}: {count}" for what, count in wrong.items()))
    for failure in ledger.failures[:5]:
        console.print(failure)


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--stores", type=int, default=50, help="of each process")
    parser.add_argument("--model", help="VECTOR_MEMORY_EMBEDDING_MODEL of the servers; default: the real one")
    parser.add_argument("--hold", type=float, default=5.0, help="seconds for which the write lock is held")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.model:
        os.environ["VECTOR_MEMORY_EMBEDDING_MODEL"] = arguments.model
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        ledger, worked = measure(path, arguments.processes, arguments.stores, arguments.hold)
        wrong = differences(path, ledger)
    figures = {name: summary(times) for name, times in sorted(ledger.times.items())}
    title = f"{arguments.processes} processes, {arguments.stores} stores each, {worked:.1f} s"
    print_tables(title, figures, wrong, ledger)
    if arguments.json:
        arguments.json.write_text(json.dumps({"times": figures, "wrong": wrong}, indent=1))
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
