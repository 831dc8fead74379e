"""How well searches find what answers a question while some of the documents have no vectors yet.

uv run benchmarks/retrieval/pending.py [SET.json.gz ...] [--queries N] [--cache DIR]

Prints nDCG@10 with a growing share of the documents without vectors, drawn at random, beside that of words alone; and
the milliseconds of a search of 2,000 notes that have vectors, and of one while 1,000 of them are pending.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, load
from rankings import SearchModeRanking, filled, opened
from scoring import score

from vector_memory.domain import Scope, SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.storage.records import Lease
from vector_memory.store import SessionMemoryStore

SEED = 20
SHARES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Of the documents, without vectors."""

PENDING = 1_000
REPEATS = 100


def measure(judged: JudgedSet, embedder: Embedder) -> dict[str, float]:
    """Return the mean nDCG@10 of words alone and with each share of the documents without vectors."""
    found = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with opened(path, SearchMode.KEYWORD, embedder) as store:
            documents = dict(filled(store, judged))
            found["words"] = mean_of(store, judged, documents)
        order = random.Random(SEED).sample(sorted(documents), len(documents))  # noqa: S311 - not a secret
        lost = 0
        for share in SHARES:
            count = round(share * len(order))
            with opened(path, SearchMode.HYBRID, embedder) as store:
                lose_vectors(store, order[lost:count])
                found[f"{share:.0%}"] = mean_of(store, judged, documents)
            lost = count
    return found


def mean_of(store: SessionMemoryStore, judged: JudgedSet, documents: Mapping[int, str]) -> float:
    """Return the mean nDCG@10 of the default search."""
    ranking = SearchModeRanking(store, judged, documents)
    return float(np.mean([score(ranking.rank(question), question.grades)[0] for question in judged.questions]))


def lose_vectors(store: SessionMemoryStore, memory_ids: list[int]) -> None:
    """Leave memories as they are between their receipt and their vectors."""
    with store._storage._database.write() as connection:  # type: ignore[attr-defined]  # noqa: SLF001
        for number in memory_ids:
            connection.execute("delete from memory_passages where memory_id = ?", (number,))
            connection.execute("update session_memories set embedding_model_id = null where id = ?", (number,))


def cost() -> str:
    """Return the median times of searches with all vectors, and while 1,000 of 2,000 notes are pending, in turns."""
    with TemporaryDirectory() as folder, ExitStack() as stores:
        settled, fresh = (stores.enter_context(of_notes(Path(folder) / f"{count}.db", count)) for count in (0, PENDING))
        times = [(timed_search(settled, number), timed_search(fresh, number)) for number in range(REPEATS)]
    medians = [median(each) for each in zip(*times, strict=True)]
    return f"a search of {2 * PENDING:,} notes: {medians[0]:.1f} ms; while {PENDING:,} are pending: {medians[1]:.1f} ms"


@contextmanager
def of_notes(path: Path, pending: int) -> Iterator[SessionMemoryStore]:
    """Yield a memory of 2,000 notes, of which the first have just been promised vectors by another process."""
    with opened(path, SearchMode.HYBRID, ToyEngine(384)) as store:
        for number in range(2 * PENDING):
            store.store_memory("working_memory", sentence(number), session_id="s")
    with opened(path, SearchMode.HYBRID, ToyEngine(384)) as store:
        lose_vectors(store, list(range(1, pending + 1)))
        with store._storage.write() as writer:  # noqa: SLF001
            for number in range(1, pending + 1):
                writer.defer_vectors(number, Lease("another process", time.time() + 50))
        yield store


def sentence(number: int) -> str:
    """Return a text that no other equals."""
    return f"Agent {number % 7} found that service {number} waits for queue {number % 31} since day {number % 13}."


def timed_search(store: SessionMemoryStore, number: int) -> float:
    """Return the milliseconds of a search for a question that was not asked before."""
    began = time.perf_counter()
    store.search_chunks(f"what does service {number * 17} wait for", Scope("working_memory", session_id="s"))
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", type=Path, metavar="SET.json.gz")
    parser.add_argument("--queries", type=int, metavar="N", help="ask only N questions of each set, drawn at random")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    print(cost())
    if not options.sets:
        return
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    print(f"| nDCG@10, without vectors | words alone | {' | '.join(f'{share:.0%}' for share in reversed(SHARES))} |")
    print("|---" * (len(SHARES) + 2) + "|")
    for path in options.sets:
        judged = load(path, options.queries, SEED)
        print(f"{judged.name}: {len(judged.documents):,} documents", file=sys.stderr)
        found = measure(judged, embedder)
        values = [found["words"], *(found[f"{share:.0%}"] for share in reversed(SHARES))]
        print(f"| {judged.name} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


if __name__ == "__main__":
    main()
