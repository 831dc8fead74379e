"""What every operation takes in a large file: the first search, storing, deleting, a backup, the doctor, another model.

    uv run --group benchmark benchmarks/performance/large.py FILE [FILE ...] [--runs 20] [--seconds 120]

Each FILE is one that `benchmarks/scale.py` made, with vectors of the default model and without states of tokens. It is
changed: what is stored is deleted again, but another model remains begun. Each part runs in a process of its own, whose
memory is given as RssAnon, with RSS in brackets. "Cold" is the first search after the pages of the file were dropped
from memory. Times of stores and deletions are of the processor, by the thread, without embedding; all others
are of the clock. Another model is played by an engine of random vectors, for so many seconds.
"""

import vector_memory.server  # noqa: F401 - numpy as the server has it  # isort: skip

import argparse
import hashlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import numpy as np
from files import opened, parts, size_mb
from grains import GRAINS
from metering import MeteredEmbedder
from texts import prompt, question, report
from timing import summary

from vector_memory.domain import Fingerprint
from vector_memory.embedding import Vectors, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

WITHOUT_STATES = Settings(late_interaction=False)
STORED = {"session_id": "stored by large.py", "agent_id": "large", "session_iter": 1}

Cells = Iterator[tuple[str, str]]


class RandomEngine(ToyEngine):
    """Another model of the same size: of each text a random vector, which costs next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = Fingerprint("random", 384, "fp32", "random")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        seeds = (int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts)
        vectors = np.stack([np.random.default_rng(seed).standard_normal(384, np.float32) for seed in seeds])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def memory() -> str:
    """Return the memory of this process in MB, as RssAnon and RSS."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in lines)
        if name in {"RssAnon", "VmRSS"}
    }
    return f"{sizes['RssAnon'] / 1000:.0f} ({sizes['VmRSS'] / 1000:.0f}) MB"


def shown(milliseconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile in words."""
    figures = summary(milliseconds)
    return f"{figures['p50']:.1f} / {figures['p95']:.1f}"


def drop_pages(path: Path) -> None:
    """Let the system forget what it has read of a file. By another process: closing the file ends a process's locks."""
    subprocess.run(
        ["/bin/dd", f"of={path}", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"], check=True
    )


def metered() -> MeteredEmbedder:
    """Return the default model, with clocks of the processor."""
    return MeteredEmbedder(load_embedder(WITHOUT_STATES), time.thread_time)


def searches(path: Path, _runs: int, _seconds: float) -> Cells:
    """Search each scope cold: the part `straight` does so again and again."""
    with closing(opened(path)) as connection:
        where = parts(connection)
    for name, part in where.items():
        yield f"{name}, passages", f"{part.passages:,}"
        embedder = metered()
        embedder.embed(["The model is loaded now."])
        drop_pages(path)
        began = time.perf_counter()
        with SessionMemoryStore(path, WITHOUT_STATES, embedder=embedder) as store:
            GRAINS["fine"](store, question(0), part.scope)
            yield f"{name}: opened and searched, cold, s", f"{time.perf_counter() - began:.2f}"


def changes(path: Path, runs: int, _seconds: float) -> Cells:
    """Store notes and reports, and delete them."""
    embedder, log = metered(), Path(f"{path}-wal")
    with SessionMemoryStore(path, WITHOUT_STATES, embedder=embedder) as store:
        stored: list[int] = []

        def add(kind: str, content: str) -> None:
            stored.append(store.store_memory(kind, content, **STORED).memory_id or 0)

        add("report", report(0, 1))
        texts = {"note": ("working_memory", prompt), "report of 5,000 tokens": ("report", report)}
        for name, (kind, text) in texts.items():
            contents = [text(number) for number in range(1, runs)]
            times = [embedder.beyond_embedding(partial(add, kind, content)) for content in contents]
            yield f"storing a {name}, ms", shown(times)
        times, written = [], []
        for number in stored:
            before = log.stat().st_size
            times.append(embedder.beyond_embedding(partial(store.delete_memory, number)))
            written.append(max(0, log.stat().st_size - before))
        yield "deleting one of them, ms", shown(times)
        yield "written to the log, kB, median", f"{statistics.median(written) / 1000:.0f}"
    yield "memory after changes", memory()


def commands(path: Path, _runs: int, _seconds: float) -> Cells:
    """Run a backup and the doctor, as processes of their own."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for words in (["backup", f"{folder}/copy.db"], ["doctor"]):
            began = time.perf_counter()
            command = [sys.executable, "-m", "vector_memory", *words, "--database-path", f"{path}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = process.stdout.read() if process.stdout else ""
            _, status, usage = os.wait4(process.pid, 0)
            took = f"{time.perf_counter() - began:.0f} s, processor {usage.ru_utime + usage.ru_stime:.0f} s"
            yield (
                words[0],
                f"{took}, peak {usage.ru_maxrss / 1000:.0f} MB RSS, exit code {os.waitstatus_to_exitcode(status)}",
            )
            print(said[-1500:], file=sys.stderr)


class OverError(Exception):
    """The time is over."""


def another_model(path: Path, _runs: int, seconds: float) -> Cells:
    """Compute the vectors of another model for a while."""
    began, marks = time.perf_counter(), list[float]()

    def note(_done: int, _total: int) -> None:
        marks.append(time.thread_time())
        if time.perf_counter() - began > seconds:
            raise OverError

    with SessionMemoryStore(path, WITHOUT_STATES, embedder=RandomEngine()) as store:
        with suppress(OverError):
            store.reembed(note)
        first = time.perf_counter() - began
        yield "another model, memories in that time", f"{len(marks):,} in {first:.0f} s"
        yield "another model, ms of the processor for each", shown([1000 * each for each in np.diff(marks)])
    yield "memory with another model", memory()


PARTS = (searches, changes, commands, another_model)


def run(place: int, path: Path, runs: int, seconds: float) -> dict[str, str]:
    """Run one part, and return its cells."""
    cells = {}
    for name, value in PARTS[place](path, runs, seconds):
        print(f"{path.stem}, {name}: {value}", file=sys.stderr, flush=True)
        cells[name] = value
    return cells


def measure(path: Path, runs: int, seconds: float, chosen: Sequence[str]) -> dict[str, str]:
    """Run parts with a file, each in a process of its own."""
    cells = {"file, MB": f"{size_mb(path):,.0f}"}
    for place, part in enumerate(PARTS):
        if part.__name__ in chosen:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                cells |= pool.submit(run, place, path, runs, seconds).result()
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--parts", nargs="*", default=[part.__name__ for part in PARTS])
    options = parser.parse_args()
    found = [measure(path, options.runs, options.seconds, options.parts) for path in options.files]
    print(f"| | {' | '.join(path.stem for path in options.files)} |")
    print(f"| --- |{' --- |' * len(found)}")
    for name in dict.fromkeys(name for cells in found for name in cells):
        print(f"| {name} | {' | '.join(cells.get(name, '') for cells in found)} |")


if __name__ == "__main__":
    main()
