"""Searching: the three grains in several scopes of a file, compared with the original server, vec0 and numpy.

Times are of the processor, by the thread that searches: so other programs do not change them.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from baselines import Baselines
from files import Part, opened, parts, shares
from grains import GRAINS
from metering import MeteredEmbedder
from numpy.typing import NDArray
from texts import question
from timing import Figures, repeated, timed

from vector_memory.domain import Scope
from vector_memory.embedding import Embedder
from vector_memory.store import SessionMemoryStore

RUNS = 30
NUMBERS = itertools.count()
"""Every question has another, so that its vector is not remembered."""

Cells = dict[str, dict[str, Figures]]
"""By scope and way of searching."""


def measure(path: Path, engine: Embedder, seconds: float) -> dict[str, object]:
    """Search a file in all ways, each for this many seconds. Times in ms, without embedding the query."""
    with opened(path) as connection:
        where, filtered = parts(connection), shares(connection)
    meter = MeteredEmbedder(engine, time.thread_time)
    with SessionMemoryStore(path, embedder=meter) as store:
        ours = {name: ours_in(store, meter, part.scope, seconds) for name, part in where.items()}
        fine = GRAINS["fine"]
        by_share = {name: {"fine": ours_once(store, meter, fine, part, seconds)} for name, part in filtered.items()}
    with Baselines(path) as baselines:
        others = {name: others_in(baselines, engine, part.scope, seconds) for name, part in where.items()}
    return {
        "passages": {name: part.passages for name, part in (where | filtered).items()},
        "searches": {name: ours[name] | others[name] for name in where},
        "filters": by_share,
    }


def ours_in(store: SessionMemoryStore, meter: MeteredEmbedder, scope: Scope, seconds: float) -> dict[str, Figures]:
    """Search a scope in all grains."""
    return {name: ours_once(store, meter, search, Part(scope, 0), seconds) for name, search in GRAINS.items()}


def ours_once(
    store: SessionMemoryStore,
    meter: MeteredEmbedder,
    search: Callable[[SessionMemoryStore, str, Scope], object],
    part: Part,
    seconds: float,
) -> Figures:
    """Search in one way; the query's embedding is taken off, and reported by itself."""
    embedding: list[float] = []

    def once(number: int) -> float:
        took = meter.beyond_embedding(lambda: search(store, question(next(NUMBERS)), part.scope))
        if number:
            embedding.append(meter.embedding)
        return took

    figures = repeated(once, runs=RUNS, seconds=seconds)
    return figures | {"embedding p50": float(np.median(embedding))}


def others_in(baselines: Baselines, engine: Embedder, scope: Scope, seconds: float) -> dict[str, Figures]:
    """Search a scope in the ways that ours is compared with."""
    queries = [engine.embed([question(next(NUMBERS))])[0] for _ in range(RUNS + 1)]
    baselines.prepare(scope)
    found = [len(baselines.original(query, scope).ids) for query in queries[:3]]
    ways: dict[str, Callable[[NDArray[np.float32]], object]] = {
        "original server": lambda query: baselines.original(query, scope),
        "vec0, no filter": baselines.flat,
        "numpy floor": baselines.floor,
    }

    def once(way: str, number: int) -> float:
        return timed(lambda: ways[way](queries[number]), time.thread_time)

    figures = {way: repeated(partial(once, way), runs=RUNS, seconds=seconds) for way in ways}
    figures["original server"]["found of 10"] = float(np.mean(found))
    return figures
