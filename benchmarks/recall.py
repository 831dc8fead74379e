"""How many of the really best units the approximate search of a large file finds, by how many passages it compares.

python -m benchmarks.recall FILE --queries 100

FILE is one that `benchmarks.scale` has filled. Questions are first lines of its chunks, drawn at random and embedded.
Prints for each number of passages compared exactly: the share of the 10 and of the 100 best units that are among them,
by meaning alone and by meaning and words, and the time to choose them.
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.embedding import load_embedder
from vector_memory.search import PassageIndex
from vector_memory.search.index.bm25 import word_scores
from vector_memory.search.index.signatures import View
from vector_memory.settings import Settings
from vector_memory.storage.scoring import VECTOR_WEIGHT
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.transactions import SqliteConnection, SqliteReader
from vector_memory.storage.terms import query_terms

STEP = 20_000
LONGEST_QUESTION = 80
SHORTEST_QUESTION = 16
DEPTHS = (10, 100)


def vectors_of(view: View) -> NDArray[np.float32]:
    """Return the vectors of all passages, by row."""
    ids = view.passages.ids[: view.count]
    parts = [view.feed.vectors(ids[start : start + STEP].tolist())[1] for start in range(0, len(ids), STEP)]
    return np.concatenate(parts)


def questions(connection: Connection, view: View, count: int) -> list[str]:
    """Return the first lines of random chunks."""
    ids = view.units.ids[1 : view.units.count].tolist()
    lines = []
    for chunk in SqliteReader(connection).chunks(random.Random(1).sample(ids, count)).values():  # noqa: S311
        stripped = [line.strip("# `*-") for line in chunk.chunk.text.splitlines()]
        long = [line for line in stripped if len(line) >= SHORTEST_QUESTION]
        lines += [line[:LONGEST_QUESTION] for line in long[:1]]
    return lines


def bonus_of(view: View, question: str) -> NDArray[np.float32]:
    """Return what each entry gets for its words."""
    bonus = np.zeros(view.units.count, np.float32)
    words = word_scores(view.feed, view.units, view.units.members(Scope()), query_terms(question))
    bonus[words.entries] = words.of(words.entries) * (1 - VECTOR_WEIGHT) / VECTOR_WEIGHT
    return bonus


def best_units(sums: NDArray[np.float32], entries: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return the entries of the units that have the passages with the highest sums, best first."""
    in_order = entries[np.argsort(-sums, kind="stable")[: 20 * count]]
    return in_order[np.sort(np.unique(in_order, return_index=True)[1])][:count]


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--compared", type=int, nargs="*", default=[500, 1_000, 2_000])
    arguments = parser.parse_args()
    settings = Settings()
    database = Database(arguments.file, dimensions=settings.embedding_dim)
    index = PassageIndex(SqliteStorage(database))
    index.start_loading()
    index.wait_for_loading()
    with database.read() as connection:
        view = index.view(SqliteFeed(SqliteConnection(connection)))
        assert view is not None, "it has just been loaded"
        vectors, asked = vectors_of(view), questions(connection, view, arguments.queries)
        by_words = [bonus_of(view, question) for question in asked]
    queries = load_embedder(settings).embed(asked)
    entries = view.passages.entries[: view.count]
    for way, bonuses in (("meaning", [np.zeros_like(bonus) for bonus in by_words]), ("meaning and words", by_words)):
        exact = [
            best_units(vectors @ query + bonus[entries], entries, max(DEPTHS))
            for query, bonus in zip(queries, bonuses, strict=True)
        ]
        for compared in arguments.compared:
            begin = time.perf_counter()
            rows = [
                view.passages.likeliest(query, bonus, view.count, view.differences(query, view.count), compared)[0]
                for query, bonus in zip(queries, bonuses, strict=True)
            ]
            milliseconds = (time.perf_counter() - begin) / len(queries) * 1000
            shares = [
                float(
                    np.mean([np.isin(best[:depth], entries[got]).mean() for best, got in zip(exact, rows, strict=True)])
                )
                for depth in DEPTHS
            ]
            recall = ", ".join(f"@{depth} {share:.4f}" for depth, share in zip(DEPTHS, shares, strict=True))
            print(f"{view.count} passages, {way}, {compared} compared: {recall}, {milliseconds:.1f} ms to choose")
    database.close()


if __name__ == "__main__":
    main()
