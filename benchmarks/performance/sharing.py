"""What a search costs when processes share a file: while four of them write, and after many that lived briefly.

    uv run --group benchmark benchmarks/performance/sharing.py FILE [--stores 10000] [--each 20] [--runs 100]

FILE is one that `benchmarks/scale.py` made; it is copied. Questions are asked alone, then by the eighth process that
has the copy open, while four of the others store note after note. Then `--stores` notes go into two new files: into one
by processes that end after `--each` of them, into the other by one process, and the same questions are asked of both in
turns. Times are of the processor, by the thread that searches, without embedding the question.
"""

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from files import opened, parts
from metering import MeteredEmbedder
from texts import prompt, question

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

WRITERS, IDLE = 4, 3
NOTES = Scope(MemoryKind.WORKING_MEMORY, session_id="notes")
spawning = multiprocessing.get_context("spawn")


def write(path: Path, first: int, count: int | None, ready: Event, over: Event) -> None:
    """Store notes until there are `count` or, if that is None, until it is over; none if it is 0, but keep it open."""
    with SessionMemoryStore(path) as store:
        store.search_chunks(question(first), Scope(MemoryKind.REPORT), Page(limit=1))
        ready.set()
        for number in range(first, first + (10**6 if count is None else count)):
            if over.is_set():
                return
            agent = f"agent{number % 7}"
            store.store_memory("working_memory", prompt(number), session_id="notes", session_iter=1, agent_id=agent)
        if count == 0:
            over.wait()


@contextmanager
def others(path: Path) -> Iterator[None]:
    """Have seven processes with the file open, of which four write."""
    over = spawning.Event()
    with ExitStack() as stack:
        waiting = []
        for place in range(WRITERS + IDLE):
            waiting.append(ready := spawning.Event())
            count = None if place < WRITERS else 0
            process = spawning.Process(target=write, args=(path, (place + 1) * 10**7, count, ready, over))
            process.start()
            stack.callback(process.join)
        stack.callback(over.set)
        for ready in waiting:
            ready.wait()
        yield


class Asking:
    """A process that searches a file, and the milliseconds each search took in it."""

    def __init__(self, path: Path, embedder: MeteredEmbedder) -> None:
        self.store = SessionMemoryStore(path, embedder=embedder)
        self.embedder = embedder
        self.store.search_chunks(question(0), Scope(MemoryKind.REPORT), Page(limit=10))

    def ask(self, scope: Scope, number: int) -> float:
        """Return the milliseconds of the processor that a search takes without embedding its question."""
        self.embedder.reset()
        begin = time.thread_time()
        if scope.kind is MemoryKind.REPORT:
            self.store.search_chunks(question(number), scope, Page(limit=10))
        else:
            self.store.search_documents(question(number), scope, Page(limit=10))
        return (time.thread_time() - begin) * 1000 - self.embedder.embedding


def shown(name: str, before: Sequence[float], after: Sequence[float]) -> None:
    """Print a line of a table."""
    one, other = statistics.median(before), statistics.median(after)
    print(f"| {name} | {one:.1f} | {other:.1f} | {other / one:.2f} |")


def while_writing(path: Path, embedder: MeteredEmbedder, runs: int) -> None:
    """Compare searches of a file alone with those of the eighth process while four write."""
    with opened(path) as connection:
        scopes = {name: part.scope for name, part in parts(connection).items()}
    asking = Asking(path, embedder)
    alone = {name: [asking.ask(scope, number) for number in range(1, runs)] for name, scope in scopes.items()}
    asking.store.close()
    with others(path):
        asking = Asking(path, embedder)
        among = {
            name: [asking.ask(scope, number) for number in range(runs, 2 * runs)] for name, scope in scopes.items()
        }
        asking.store.close()
    print("| processor ms, p50 | alone | the eighth, while four write | ratio |\n| --- | --- | --- | --- |")
    for name in scopes:
        shown(name, alone[name], among[name])


def after_short_lives(folder: Path, embedder: MeteredEmbedder, stores: int, each: int, runs: int) -> None:
    """Compare searches of notes stored by one process with those of notes stored by many that ended soon."""
    ready, over = spawning.Event(), spawning.Event()
    paths = [folder / "one.db", folder / "many.db"]
    for path, portion in zip(paths, (stores, each), strict=True):
        for first in range(0, stores, portion):
            process = spawning.Process(target=write, args=(path, first, portion, ready, over))
            process.start()
            process.join()
    one, many = (Asking(path, embedder) for path in paths)
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(1, runs):
        for asking, times in zip((one, many), found, strict=True):
            times.append(asking.ask(NOTES, number))
    print(f"\n| {stores:,} notes, processor ms, p50 | by one process | by {stores // each} | ratio |")
    print("| --- | --- | --- | --- |")
    shown("session", *found)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--stores", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=20, help="notes that a process stores before it ends")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    embedder = MeteredEmbedder(load_embedder(Settings()), time.thread_time)
    with tempfile.TemporaryDirectory(dir=options.file.parent) as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(options.file, copy)
        while_writing(copy, embedder, options.runs)
        after_short_lives(Path(folder), embedder, options.stores, options.each, options.runs)


if __name__ == "__main__":
    main()
