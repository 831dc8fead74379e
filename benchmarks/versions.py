"""Searches one file with two versions of this package, in turns, and compares how long they take and what they find.

    uv run --group benchmark benchmarks/versions.py FILE --against TREE [--its-file FILE] [--questions 40] [--json OUT]

FILE is one that `benchmarks/scale.py` has filled; TREE is a checkout of the other version. If that has other tables,
its own `benchmarks/scale.py` has filled its file in the same way. Each version has a process of its own, which loads
what it keeps in memory, if anything, before the first question. Both get the same question, one right after the other,
and take turns in going first. Times are ms: of the whole call without embedding the query, and of the processor with
it.

Half of the questions are made of the same few sentences and a number; the others are lines of the file, with words that
nobody has asked for before. The first question in each scope is also listed by itself, and `--cold` drops the file from
the system's cache before it.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "performance"))

Answer = dict[str, Any]

SHORTEST_LINE, LONGEST_LINE = 16, 80


class Version:
    """A process that searches a file with the package in a tree."""

    def __init__(self, tree: Path, file: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"},
        )
        self.loaded = self._receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def search(self, grain: str, scope: str, query: str) -> Answer:
        """Search, and return the times and what was found."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([grain, scope, query]).encode() + b"\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> Answer:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]


def work(file: Path) -> None:
    """Answer questions from standard input, with the package that is first on the path."""
    from files import opened, parts  # noqa: PLC0415 - only the workers import the package, each its own
    from grains import GRAINS  # noqa: PLC0415
    from metering import MeteredEmbedder  # noqa: PLC0415

    from vector_memory.embedding import load_embedder  # noqa: PLC0415
    from vector_memory.settings import Settings  # noqa: PLC0415
    from vector_memory.store import SessionMemoryStore  # noqa: PLC0415

    with opened(file) as connection:
        scopes = {name: part.scope for name, part in parts(connection).items()}
    meter = MeteredEmbedder(load_embedder(Settings()))
    meter.embed(["warm up"])
    began, used = time.perf_counter(), time.process_time()
    with SessionMemoryStore(file, embedder=meter) as store:
        store.start_background_work()
        if (index := getattr(store, "_index", None)) is not None:  # a version that keeps one in memory
            index.wait_for_loading()
        print(json.dumps({"s": time.perf_counter() - began, "processor": time.process_time() - used}), flush=True)
        for line in sys.stdin:
            grain, scope, query = json.loads(line)
            meter.reset()
            began, used = time.perf_counter(), time.process_time()
            found = GRAINS[grain](store, query, scopes[scope])
            took, processor = time.perf_counter() - began, time.process_time() - used
            print(json.dumps(answer_of(found, took * 1000 - meter.embedding, processor * 1000)), flush=True)


def answer_of(found: Any, took: float, processor: float) -> Answer:
    """Return an answer with what the two versions must agree on."""
    units = [
        [
            getattr(unit, "chunk_id", None),
            unit.memory_id if hasattr(unit, "memory_id") else unit.id,
            unit.score,
            unit.similarity,
            unit.sources,
        ]
        for unit in found.results
    ]
    said = {"found": units, "confidence": found.confidence, "elsewhere": found.elsewhere, "message": found.message}
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return {"ms": took, "processor": processor, "MB": memory, "said": said}


def questions(file: Path, count: int) -> list[str]:
    """Return questions in turns: sentences with a number, and lines of the file."""
    from files import opened  # noqa: PLC0415
    from texts import question  # noqa: PLC0415

    with opened(file) as connection:
        (last,) = connection.execute("select max(id) from memory_chunks").fetchone()
        lines = []
        for number in random.Random(1).sample(range(1, last), count):  # noqa: S311 - protects nothing
            text = connection.execute("select content from memory_chunks where id = ?", (number,)).get or ""
            stripped = [line.strip("# `*-|") for line in text.splitlines()]
            lines += [line[:LONGEST_LINE] for line in stripped if len(line) >= SHORTEST_LINE][:1]
    return list(itertools.chain(*zip(map(question, range(count // 2)), lines, strict=False)))


def drop_from_cache(file: Path) -> None:
    """Let the system forget what it has read of the file."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile of values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main() -> None:
    """Compare two versions on one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--against", type=Path, default=ROOT, help="a checkout of the other version")
    parser.add_argument("--its-file", type=Path, help="the file of the other version; default: the same")
    parser.add_argument("--questions", type=int, default=40, help="in each scope and way")
    parser.add_argument("--scopes", nargs="*")
    parser.add_argument("--grains", nargs="*")
    parser.add_argument("--cold", action="store_true", help="drop the file from the system's cache before each scope")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.file)
        return
    compare(options)


def compare(options: argparse.Namespace) -> None:
    """Ask both versions the same, and print a table."""
    asked = iter(questions(options.file, 20_000))
    scopes = options.scopes or [
        "session of about 2,500",
        "session of about 50,000",
        "one agent",
        "one kind, everything",
    ]
    grains = options.grains or [
        "fine",
        "medium",
        "coarse, best",
        "coarse, newest",
        "fine, by meaning",
        "fine, by words",
    ]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    different, memory = 0, defaultdict[str, float](float)
    trees = {"old": options.against, "new": ROOT}
    files = {"old": options.its_file or options.file, "new": options.file}
    versions = {name: Version(tree, files[name]) for name, tree in trees.items()}
    with versions["old"], versions["new"]:
        print({name: version.loaded for name, version in versions.items()})
        for scope, grain in itertools.product(scopes, grains):
            answers = defaultdict[str, list[Answer]](list)
            for number in range(options.questions + 1):
                query, order = next(asked), ["old", "new"] if number % 2 else ["new", "old"]
                for name in order:
                    if options.cold and not number:
                        drop_from_cache(files[name])
                    answers[name].append(versions[name].search(grain, scope, query))
                if answers["old"][-1]["said"] != answers["new"][-1]["said"]:
                    different += 1
                    print("DIFFERENT", scope, grain, query)
                    print(" ", answers["old"][-1]["said"], "\n ", answers["new"][-1]["said"])
            row = rows[f"{scope}, {grain}"] = {
                f"{name} {what}": value for name in trees for what, value in figures(answers[name]).items()
            }
            memory |= {name: max(memory[name], answers[name][-1]["MB"]) for name in trees}
            print(f"{scope}, {grain}: " + " ".join(f"{name} {value:.1f};" for name, value in row.items()), flush=True)
    print(f"different answers: {different}; MB resident: {dict(memory)}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def figures(answers: list[Answer]) -> dict[str, float]:
    """Return the times of the first question, and the median and the 95th percentile of the others."""
    times, processor = [answer["ms"] for answer in answers[1:]], [answer["processor"] for answer in answers[1:]]
    return {
        "first": answers[0]["ms"],
        "p50": percentile(times, 50),
        "p95": percentile(times, 95),
        "processor p50": percentile(processor, 50),
        "processor p95": percentile(processor, 95),
    }


if __name__ == "__main__":
    main()
