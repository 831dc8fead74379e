"""How many of the really best units a search of a large scope finds, by how many passages it compares first.

uv run python -m benchmarks.recall FILE --queries 100 --first 500 1000 2000

FILE is one that `benchmarks.scale` has filled. Questions are first lines of its chunks, drawn at random, asked of all
memories of one kind. Prints the shares of the 10 and of the 100 best units that a search of the likeliest finds, by
meaning and by meaning and words, with 95 % intervals over the questions, and the time for 10. It compares at least
1,000 passages by meaning, otherwise 500, and for 100 units 800.
"""

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import MemoryKind, Scope
from vector_memory.embedding import load_embedder
from vector_memory.search.question import Question
from vector_memory.search.rank import Method, Ranking, ScopeData
from vector_memory.settings import Settings
from vector_memory.storage.postings import buckets_of
from vector_memory.storage.queries.candidates import Candidates
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.texts.terms import query_terms

SHORTEST, LONGEST = 16, 80
DEPTHS = (10, 100)
RESAMPLES = 10_000


def questions(reader: SqliteReader, ids: list[int], count: int) -> Iterator[str]:
    """Yield the first lines of random chunks."""
    for chunk in reader.chunks.get_all(random.Random(1).sample(ids, count)).values():  # noqa: S311 - protects nothing
        stripped = [line.strip("# `*-") for line in chunk.chunk.text.splitlines()]
        yield from [line[:LONGEST] for line in stripped if len(line) >= SHORTEST][:1]


class Asked(NamedTuple):
    """A question in a scope, and what was read for it."""

    source: Candidates
    scope: Scope
    question: Question
    found: ScopeData

    def ranking(self, method: Method) -> Ranking:
        """Return the units, to be compared by a method."""
        return Ranking(self.source, self.scope, self.question, self.found, method=method)


def found(ranking: Ranking, depth: int) -> list[int]:
    """Return the ids of the best units, best first."""
    return [hit.id for hit in ranking.best(depth).hits]


def asked_of(reader: SqliteReader, scope: Scope, count: int) -> Iterator[tuple[str, Asked]]:
    """Yield each question by meaning, and by meaning and words."""
    source, embedder = reader.vectors.candidates, load_embedder(Settings())
    every = source.indexed(scope, [])
    for text in questions(reader, every.units.ids[every.units.inside].tolist(), count):
        query, terms = embedder.encode_query(text).vector, query_terms(text)
        yield "meaning", Asked(source, scope, Question(query, None), ScopeData(every))
        words = source.indexed(scope, buckets_of(terms))
        yield "meaning and words", Asked(source, scope, Question(query, terms), ScopeData(words))


def interval(values: NDArray[np.float64]) -> str:
    """Return a mean and its 95 % interval, by drawing the questions again."""
    drawn = np.random.default_rng(1).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return f"{np.mean(values):.4f} ({low:.4f}-{high:.4f})"


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", type=MemoryKind, default=MemoryKind.REPORT)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--first", type=int, nargs="*", default=[500, 1_000, 2_000])
    arguments = parser.parse_args()
    results = defaultdict[tuple[str, int], list[tuple[float, ...]]](list)
    database = Database(arguments.file, dimensions=Settings().embedding_dim)
    with database.read() as connection:
        reader = SqliteReader(connection)
        for way, compared in asked_of(reader, Scope(arguments.kind), arguments.queries):
            exact = compared.ranking(Method(iterative=False))
            right = [found(exact, depth) for depth in DEPTHS]
            for first in arguments.first:
                likely, begin = compared.ranking(Method(batch=first)), time.perf_counter()
                own, took = [found(likely, DEPTHS[0])], time.perf_counter() - begin
                own += [found(likely, depth) for depth in DEPTHS[1:]]
                shares = (len({*one} & {*other}) / (len(one) or 1) for one, other in zip(right, own, strict=True))
                results[way, first].append((*shares, took * 1_000))
    database.close()
    for (way, first), rows in sorted(results.items()):
        *columns, times = np.array(rows).T
        recall = ", ".join(f"@{depth} {interval(own)}" for depth, own in zip(DEPTHS, columns, strict=True))
        print(f"{way}, {first} first: {recall}; {np.median(times):.1f} ms")


if __name__ == "__main__":
    main()
