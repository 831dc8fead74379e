"""What many namespaces, each a schema of its own, cost a PostgreSQL server.

    uv run python -m benchmarks.postgres_namespaces URL --namespaces 1000

Needs an empty database with pgvector; creates the schemas `ns_1`, `ns_2` and so on, and leaves them there.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg

from vector_memory.domain import Scope
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.storage import PostgresStorage

DIMENSIONS = 384
SAMPLE = 50

JOINED = """
select count(*) from ns.memory_passages p join ns.session_memories m on m.id = p.memory_id where m.session_id = 's'
"""


def opened(url: str, number: int) -> None:
    """Open a namespace, creating it if necessary, count its memories, and close it."""
    database = PostgresDatabase(url, schema=f"ns_{number}", dimensions=DIMENSIONS)
    with closing(PostgresStorage(database)) as storage, storage.read() as reader:
        reader.count(Scope())


def milliseconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1_000


def private_mb(process: int) -> float:
    """Return the memory of a process that it shares with no other."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def measure(url: str, namespaces: int) -> None:
    """Print the figures."""
    created = [milliseconds(lambda number=number: opened(url, number)) for number in range(1, namespaces + 1)]
    again = [milliseconds(lambda number=number: opened(url, number)) for number in range(1, SAMPLE + 1)]
    print(f"create and open, ms: first {SAMPLE} {statistics.median(created[:SAMPLE]):.0f}, "
          f"last {SAMPLE} {statistics.median(created[-SAMPLE:]):.0f}, all {sum(created) / 1_000:.0f} s")  # fmt: skip
    print(f"open, ms: {statistics.median(again):.1f}")
    with psycopg.connect(url, autocommit=True) as connection:
        (size,) = connection.execute("select pg_database_size(current_database())").fetchall()[0]
        catalog = (
            "select sum(pg_total_relation_size(oid))::bigint from pg_class "
            "where relkind = 'r' and relnamespace = %s::regnamespace"
        )
        (own,) = connection.execute(catalog, ("pg_catalog",)).fetchall()[0]
        print(f"database {size / 1e6:.0f} MB, {size / namespaces / 1e3:.0f} kB each; catalog {own / 1e6:.0f} MB")
        backend = connection.info.backend_pid
        for count in (1, namespaces // 10, namespaces):
            for number in range(1, count + 1):
                connection.execute(JOINED.replace("ns", f"ns_{number}"))
            print(f"one connection that has used {count} namespaces: {private_mb(backend):.1f} MB")
        change = milliseconds(lambda: [alter(connection, number) for number in range(1, namespaces + 1)])
        print(f"a migration that adds a column to each: {change / 1_000:.1f} s")


def alter(connection: psycopg.Connection, number: int) -> None:
    """Change a table of a namespace as a migration would."""
    with connection.transaction():
        connection.execute(f"alter table ns_{number}.session_memories add column added integer")
        connection.execute("update ns.namespace set schema_version = schema_version".replace("ns.", f"ns_{number}."))


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of an empty database with pgvector")
    parser.add_argument("--namespaces", type=int, default=1_000)
    arguments = parser.parse_args()
    measure(arguments.url, arguments.namespaces)


if __name__ == "__main__":
    main()
