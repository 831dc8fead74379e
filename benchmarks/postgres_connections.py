"""Whether many processes that use many namespaces get by with the connections of one PostgreSQL server.

    uv run python -m benchmarks.postgres_connections URL --pooler URL --namespaces 2000 --processes 10

Needs an empty database with pgvector; creates the namespaces `n1`, `n2` and so on, and leaves them there. `--pooler`
names the same database through a pooler: it is measured after the first.
"""

import argparse
import random
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import psycopg

from vector_memory.domain import Scope
from vector_memory.errors import VectorMemoryError
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.storage.opening import prepare_database
from vector_memory.store import SessionMemoryStore

SETTINGS = Settings(embedding_model="toy")
CONNECTIONS = "connections=9"
THREADS = 4
SESSION = Scope("report", session_id="s")


class Visit(NamedTuple):
    """A use of a namespace: the milliseconds of a store, and why it failed."""

    store: float
    failure: str | None = None


def visit(url: str, name: str, text: str) -> Visit:
    """Open a namespace, store a text and find it."""
    try:
        with SessionMemoryStore(DatabaseUrl.parse(url).of_namespace(name), SETTINGS) as store:
            began = time.perf_counter()
            stored = store.store_memory("report", text, session_id="s", agent_id="a").memory_id
            took = (time.perf_counter() - began) * 1_000
            found = [hit.id for hit in store.search_documents(text, SESSION).results]
    except VectorMemoryError as error:
        return Visit(0, f"{type(error).__name__}: {error}")
    return Visit(took, None if stored in found else "the stored text was not found")


def work(title: str, url: str, number: int, namespaces: int, visits: int) -> list[Visit]:
    """Use random namespaces from several threads, as one process does."""
    names = random.Random(number).choices(range(1, namespaces + 1), k=visits)  # noqa: S311 - repeatable
    with ThreadPoolExecutor(THREADS) as threads:
        texts = (f"Process {number} was here {title}, at its visit {turn}." for turn in range(visits))
        return list(threads.map(visit, [url] * visits, (f"n{name}" for name in names), texts))


def create(url: str, namespaces: int) -> None:
    """Create the namespaces."""
    prepare_database(DatabaseUrl.parse(url), dimensions=SETTINGS.embedding_dim)
    with psycopg.connect(url) as connection:
        sql = "insert into vector_memory.namespaces (name) select 'n' || number from generate_series(1, %s) s(number)"
        connection.execute(sql, (namespaces,))
    began = time.perf_counter()
    prepare_database(DatabaseUrl.parse(url), dimensions=SETTINGS.embedding_dim)
    print(f"{namespaces} namespaces created in {time.perf_counter() - began:.0f} s", flush=True)


def measure(title: str, url: str, arguments: argparse.Namespace) -> None:
    """Let all processes work, and print what failed."""
    url = f"{url}{'&' if '?' in url else '?'}{CONNECTIONS}"
    began = time.perf_counter()
    with get_context("spawn").Pool(arguments.processes) as pool:
        shares = [(title, url, number, arguments.namespaces, arguments.visits) for number in range(arguments.processes)]
        visits = [each for share in pool.starmap(work, shares) for each in share]
    failures = Counter(each.failure for each in visits if each.failure)
    stores = [each.store for each in visits if not each.failure] or [0.0]
    print(f"{title}: {len(visits)} visits in {time.perf_counter() - began:.0f} s, {failures.total()} failures, "
          f"store {statistics.median(stores):.1f} ms", flush=True)  # fmt: skip
    for failure, number in failures.most_common():
        print(f"  {number} x {failure}")


def main() -> None:
    """Create the namespaces, and measure with and without the pooler."""
    parser = argparse.ArgumentParser(description="Use many namespaces from many processes.")
    parser.add_argument("url")
    parser.add_argument("--pooler")
    parser.add_argument("--namespaces", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--visits", type=int, default=500, help="of each process")
    arguments = parser.parse_args()
    create(arguments.url, arguments.namespaces)
    measure("direct", arguments.url, arguments)
    if arguments.pooler:
        measure("through the pooler", arguments.pooler, arguments)


if __name__ == "__main__":
    main()
