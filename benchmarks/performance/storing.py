"""Storing: what a report of 5,000 tokens, twenty there, and a note cost beside the embedding; also of another checkout.

What a package does in a process of its own, is by the thread; a receipt is what a server takes that defers its vectors.
"""

import itertools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from acknowledging import WAYS, ready, receipt, store_note, store_report, until_found
from files import environment
from metering import MeteredEmbedder
from straight import work, worker
from texts import prompt, report
from timing import Figures, summary, timed

from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.indexer import Indexer

FIRST_REPORTS, REPORTS, NOTES = 20, 8, 40
AT_ONCE = WAYS["before the vectors"]
THREADS = (1, 2, 4)
ROUNDS = 3


def measure(checkouts: Mapping[str, Path], folder: Path) -> dict[str, dict[str, Figures]]:
    """Store reports and notes with the package of each checkout, which take turns; figures by checkout."""
    values = {name: defaultdict[str, list[float]](list) for name in checkouts}
    with ExitStack() as stack:
        workers = {name: worker(stack, path, folder / f"{name}.db", __file__) for name, path in checkouts.items()}
        servers = {name: ready(folder / f"{name}-2.db", AT_ONCE, environment(path)) for name, path in checkouts.items()}
        texts = [("report", report(number)) for number in range(FIRST_REPORTS + 1 + REPORTS)]
        texts += [("working_memory", prompt(number)) for number in range(NOTES)]
        for (number, (kind, text)), name in itertools.product(enumerate(texts), checkouts):
            figures = workers[name].request("store", kind=kind, text=text)
            store_with, until = (store_report, "reports") if kind == "report" else (store_note, "working_memory")
            figures |= receipt(servers[name], partial(store_with, text=text))
            until_found(servers[name], number, until)
            for what, value in figures.items() if number > FIRST_REPORTS else ():
                values[name][f"{kind}: {what}"].append(value)
        for server in servers.values():
            server.stop()
    return {name: {what: summary(each) for what, each in found.items()} for name, found in values.items()}


def measure_threads(path: Path) -> dict[str, Figures]:
    """Store reports from several threads of one process at once, in turn; reports a minute by the number of threads."""
    rates: dict[str, list[float]] = defaultdict(list)
    numbers = itertools.count(1000)
    with SessionMemoryStore(path) as store:
        store.store_memory("report", report(0), session_id="stored now")

        def store_next(text: str) -> None:
            store.store_memory("report", text, session_id="stored now")

        for _ in range(ROUNDS):
            for threads in THREADS:
                texts = [report(next(numbers)) for _ in range(max(THREADS))]
                with ThreadPoolExecutor(threads) as pool:
                    took = timed(lambda: list(pool.map(store_next, texts)))  # noqa: B023 - called at once
                rates[f"{threads} at once"].append(len(texts) * 60_000 / took)
    return {name: {"reports a minute": statistics.median(each)} for name, each in rates.items()}


class Stores:
    """What a worker does."""

    def __init__(self, path: Path) -> None:
        self._meter = MeteredEmbedder(load_embedder(Settings()), time.thread_time)
        self._store = SessionMemoryStore(path, embedder=self._meter)  # type: ignore[arg-type]
        links_of, meter = Indexer.links_of, self._meter
        Indexer.links_of = lambda *given: meter.clocked("linking", links_of, *given)  # type: ignore[method-assign]

    def store(self, kind: str, text: str) -> dict[str, float]:
        """Store a text; return ms of the processor, and how often the tokenizer was called."""
        meter = self._meter
        beyond = meter.beyond_embedding(lambda: self._store.store_memory(kind, text, session_id="stored now"))
        told = {"tokenizing": meter.tokenizing, "calls of the tokenizer": meter.tokenizer_calls}
        return {"beyond embedding and tokenizing": beyond, "of it links": meter.linking, **told}


if __name__ == "__main__":
    work(Stores(Path(sys.argv[1])))
