"""Storing: what a report of 5,000 tokens and a short prompt cost, and how much of it is the embedding engine's."""

import itertools
import statistics
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from metering import MeteredEmbedder
from texts import prompt, report
from timing import Figures, summary, timed

from vector_memory.domain import Page, Scope
from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

REPORTS, PROMPTS = 10, 100
THREADS = (1, 2, 4)
ROUNDS = 3


def measure(path: Path) -> dict[str, Figures]:
    """Store reports and prompts one after another, then delete them. Times in ms, shares in percent."""
    meter = MeteredEmbedder(load_embedder(Settings()))
    values: dict[str, list[float]] = defaultdict(list)
    with SessionMemoryStore(path, embedder=meter) as store:
        store.store_memory("report", report(0), session_id="stored now")

        def store_one(what: str, kind: str, text: str) -> None:
            rest = meter.beyond_embedding(lambda: store.store_memory(kind, text, session_id="stored now"))
            took = rest + meter.embedding + meter.tokenizing
            values[what].append(took)
            values[f"{what}: embedding, %"].append(meter.embedding / took * 100)
            values[f"{what}: tokenizing, %"].append(meter.tokenizing / took * 100)
            values[f"{what}: all else, ms"].append(rest)

        for number in range(1, REPORTS + 1):
            store_one("report of 5,000 tokens", "report", report(number))
        for number in range(PROMPTS):
            store_one("short prompt", "input_prompt", prompt(number))
        remove_all(store, "stored now")
    return {what: summary(each) for what, each in values.items()}


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


def measure_idle(seconds: float = 2.0) -> Figures:
    """Return the processor time, in ms, that a loaded engine uses in this many idle seconds."""
    engine = load_embedder(Settings())
    engine.embed([report(0)])
    before = time.process_time()
    threading.Event().wait(seconds)
    return {"processor ms per idle second": (time.process_time() - before) * 1000 / seconds}


def remove_all(store: SessionMemoryStore, session_id: str) -> None:
    """Delete the memories stored here, so that the file is as before."""
    while found := store.search_scoped(Scope(session_id=session_id), Page(limit=100)).results:
        for memory in found:
            store.delete_memory(memory.id)
