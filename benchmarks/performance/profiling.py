"""Where the time of a fine search goes: its parts are timed where they are called."""

import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from vector_memory.search import retriever, scan
from vector_memory.search.judge import judge
from vector_memory.search.rank import word_scores
from vector_memory.storage.queries.candidates import Candidates
from vector_memory.storage.sqlite.transactions import SqliteReader

RUNS = 20

PARTS: dict[str, list[tuple[Any, str]]] = {
    "units and postings": [(Candidates, "indexed")],
    "words": [(scan, word_scores.__name__)],
    "passages compared": [(ExactComparison, "__init__"), (ExactComparison, "find"), (LikelyComparison, "find")],
    "texts": [(SqliteReader, "chunks")],
    "confidence": [(retriever, judge.__name__)],
}
"""The functions of each part. `confidence` includes searching other scopes if nothing near was found."""


def profile(search: Callable[[int], float]) -> dict[str, float]:
    """Return medians in ms: of what `search(number)` says it takes, and of each part without the parts inside it."""
    runs = defaultdict[str, list[float]](list)
    for number in range(RUNS):
        with parts_timed() as spent:
            whole = search(number)
        runs["in all"].append(whole)
        for name in PARTS:
            runs[name].append(spent[name])
        runs["all else"].append(whole - sum(spent.values()))
    return {name: float(np.median(values)) for name, values in runs.items()}


@contextlib.contextmanager
def parts_timed() -> Iterator[dict[str, float]]:
    """Give the times that the parts take inside the block, in ms."""
    spent = dict.fromkeys(PARTS, 0.0)
    with contextlib.ExitStack() as stack:
        for name, functions in PARTS.items():
            for owner, attribute in functions:
                timed = measured(getattr(owner, attribute), name, spent)
                stack.enter_context(mock.patch.object(owner, attribute, timed))
        yield spent


def measured(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Return the function, which then adds its own time, without that of nested parts, to `spent`."""

    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        before, begin = sum(spent.values()), time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            spent[name] += (time.thread_time() - begin) * 1000 - (sum(spent.values()) - before)

    return timed
