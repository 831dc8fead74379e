"""How many of the really nearest passages the approximate search of a large file finds, by how many it compares.

python -m benchmarks.recall FILE --queries 100

FILE is one that `benchmarks.scale` has filled. Questions are first lines of its chunks, drawn at random and embedded.
Prints for each number of passages compared exactly: the share of the 10 and of the 100 nearest that are among them, and
the time to choose them.
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding import load_embedder
from vector_memory.search.catalogue import Catalogue
from vector_memory.settings import Settings
from vector_memory.storage.chunks import get_chunks
from vector_memory.storage.database import Connection, Database
from vector_memory.storage.passages import all_vectors_of, passages_after, places_of
from vector_memory.storage.vectors import vector_dimensions

STEP = 20_000
LONGEST_QUESTION = 80
SHORTEST_QUESTION = 16
DEPTHS = (10, 100)


def read(connection: Connection) -> tuple[Catalogue, NDArray[np.float32]]:
    """Return all passages and their vectors, shape (passages, dimensions)."""
    dimensions = vector_dimensions(connection)
    catalogue, vectors = Catalogue.empty(0, dimensions), []
    while passages := passages_after(connection, catalogue.last_id, STEP):
        vectors.append(all_vectors_of(connection, [passage.id for passage in passages])[1])
        places = places_of(connection, list({passage.memory_id for passage in passages}))
        catalogue = catalogue.extended(passages, vectors[-1], places, passages[-1].id)
    return catalogue, np.concatenate(vectors)


def questions(connection: Connection, catalogue: Catalogue, count: int) -> list[str]:
    """Return the first lines of random chunks."""
    passages = passages_after(connection, 0, catalogue.count)
    chosen = random.Random(1).sample([passage.chunk_id for passage in passages if passage.chunk_id], count)  # noqa: S311
    lines = []
    for chunk in get_chunks(connection, chosen).values():
        stripped = [line.strip("# `*-") for line in chunk.chunk.text.splitlines()]
        long = [line for line in stripped if len(line) >= SHORTEST_QUESTION]
        lines += [line[:LONGEST_QUESTION] for line in long[:1]]
    return lines


def share_found(nearest: list[NDArray[np.int64]], found: list[NDArray[np.int64]], depth: int) -> float:
    """Return which share of the `depth` nearest is among what was found, on average."""
    return float(np.mean([np.isin(best[:depth], got).mean() for best, got in zip(nearest, found, strict=True)]))


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--compared", type=int, nargs="*", default=[250, 500, 1_000, 2_000])
    arguments = parser.parse_args()
    settings = Settings()
    database = Database(arguments.file, dimensions=settings.embedding_dim)
    with database.read() as connection:
        catalogue, vectors = read(connection)
        asked = questions(connection, catalogue, arguments.queries)
    database.close()
    rows = np.arange(catalogue.count)
    queries = load_embedder(settings).embed(asked)
    nearest = [np.argsort(-(vectors @ query), kind="stable")[: max(DEPTHS)] for query in queries]
    for compared in arguments.compared:
        started = time.perf_counter()
        found = [catalogue.likeliest(rows, query, compared) for query in queries]
        milliseconds = (time.perf_counter() - started) / len(queries) * 1000
        recall = ", ".join(f"recall@{depth} {share_found(nearest, found, depth):.4f}" for depth in DEPTHS)
        print(f"{catalogue.count} passages, {compared} compared: {recall}, {milliseconds:.1f} ms to choose")


if __name__ == "__main__":
    main()
