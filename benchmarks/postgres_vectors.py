"""Compares the types `vector` and `halfvec` of pgvector: size, speed, and how far cosines are off.

    python -m benchmarks.postgres_vectors URL --passages 100000

Needs a database with pgvector, in which it creates the schema `benchmark` and drops it again. Vectors are random, of
384 numbers, and as near to the others of their session as parts of one text are. Times are medians in milliseconds; the
kinds take turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import psycopg
from numpy.typing import NDArray

DIMENSIONS = 384
SESSION = 2_500
NOISE = 1.0
BATCH = 10_000
ROUNDS = 15

TYPES = {"vector": ">f4", "halfvec": ">f2"}
"""The types, and how PostgreSQL sends their numbers."""

EXACT = """
select id, embedding from {kind}s where session = any(%s)
order by (embedding <-> %s::real[]::{kind}) + 0, id limit 100
"""
READ = "select id, embedding from {kind}s where id > %s and id <= %s order by id"
SCATTERED = "select id, embedding from {kind}s where id = any(%s)"
SIGNATURES = "select id, binary_quantize(embedding) from {kind}s where id > %s and id <= %s order by id"


def vectors_from(numbers: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Return unit vectors, those of a session near each other, shape (count, DIMENSIONS)."""
    centres = numbers.standard_normal((-(-count // SESSION), DIMENSIONS)).astype(np.float32)
    vectors = np.repeat(centres, SESSION, axis=0)[:count]
    vectors += NOISE * numbers.standard_normal(vectors.shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fill(connection: psycopg.Connection, kind: str, vectors: NDArray[np.float32]) -> float:
    """Create and fill the table of a type; return the seconds."""
    begin = time.perf_counter()
    connection.execute(f"create table {kind}s (id bigint, session integer, embedding {kind}({DIMENSIONS}))")
    connection.execute(f"alter table {kind}s alter column embedding set storage plain")
    number = np.dtype(TYPES[kind])
    fields = [("fields", ">i2"), ("l1", ">i4"), ("id", ">i8"), ("l2", ">i4"), ("session", ">i4"), ("l3", ">i4"),
              ("dimensions", ">i2"), ("unused", ">i2"), ("numbers", number, DIMENSIONS)]  # fmt: skip
    with connection.cursor().copy(f"copy {kind}s from stdin (format binary)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for start in range(0, len(vectors), BATCH):
            part = vectors[start : start + BATCH]
            rows = np.zeros(len(part), fields)
            rows["fields"], rows["l1"], rows["l2"] = 3, 8, 4
            rows["l3"], rows["dimensions"] = 4 + number.itemsize * DIMENSIONS, DIMENSIONS
            rows["id"] = np.arange(start, start + len(part))
            rows["session"] = rows["id"] // SESSION
            rows["numbers"] = part
            copy.write(rows.tobytes())
        copy.write(b"\xff\xff")
    connection.execute(f"create index on {kind}s(id)")
    connection.execute(f"create index on {kind}s(session)")
    connection.execute(f"analyze {kind}s")
    return time.perf_counter() - begin


def received(kind: str, rows: list[tuple[int, bytes]]) -> NDArray[np.float32]:
    """Return the vectors of rows as float32."""
    number = np.dtype(TYPES[kind])
    sent = np.frombuffer(b"".join(row[1] for row in rows), number).reshape(len(rows), -1)
    return sent[:, 4 // number.itemsize :].astype(np.float32)


def timed(actions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median milliseconds of actions that take turns."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            times[name].append((time.perf_counter() - begin) * 1_000)
    return {name: statistics.median(own) for name, own in times.items()}


def measure(connection: psycopg.Connection, vectors: NDArray[np.float32]) -> None:
    """Print the figures of both types."""
    numbers, count = np.random.default_rng(2), len(vectors)
    query = (vectors[1] + vectors[2]) / np.linalg.norm(vectors[1] + vectors[2])
    sessions = {"session of 2,500": [0], "20 sessions": list(range(20)), "all": list(range(count // SESSION + 1))}
    scattered = np.sort(numbers.choice(count, 1_000, replace=False)).tolist()

    def run(kind: str, sql: str, *parameters: object) -> NDArray[np.float32]:
        rows = connection.cursor(binary=True).execute(sql.format(kind=kind), parameters).fetchall()
        return received(kind, rows) if "binary_quantize" not in sql else np.empty(0, np.float32)

    for kind in TYPES:
        seconds = fill(connection, kind, vectors)
        (size,) = connection.execute("select pg_table_size(%s)", (f"{kind}s",)).fetchall()[0]
        print(f"{kind:8} {size / count:6.0f} bytes a passage, filled in {seconds:.1f} s")
    cases: dict[str, Callable[[str], object]] = {
        f"exact, {name}": lambda kind, own=own: run(kind, EXACT, own, query.tolist()) for name, own in sessions.items()
    }
    cases |= {
        "read 4,096 in a row": lambda kind: run(kind, READ, 0, 4_096),
        "read 1,000 scattered": lambda kind: run(kind, SCATTERED, scattered),
        "4,096 signatures": lambda kind: run(kind, SIGNATURES, 0, 4_096),
    }
    for name, case in cases.items():
        medians = timed({kind: partial(case, kind) for kind in TYPES})
        print(f"{name:24}" + "".join(f"  {kind} {median:8.2f} ms" for kind, median in medians.items()))
    errors = np.abs(vectors.astype(np.float16).astype(np.float32) @ query - vectors @ query)
    exact, rounded = np.argsort(-(vectors @ query))[:10], vectors.astype(np.float16).astype(np.float32) @ query
    same = len(set(exact.tolist()) & set(np.argsort(-rounded)[:10].tolist()))
    print(f"cosines from halfvec: off by at most {errors.max():.1e}, {errors.mean():.1e} on average; {same} of 10 best")


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of a database with pgvector")
    parser.add_argument("--passages", type=int, default=100_000)
    arguments = parser.parse_args()
    with psycopg.connect(arguments.url, autocommit=True) as connection:
        connection.execute("create schema benchmark")
        try:
            connection.execute("set search_path = benchmark, public")
            connection.execute("set max_parallel_workers_per_gather = 0")
            measure(connection, vectors_from(np.random.default_rng(1), arguments.passages))
        finally:
            connection.execute("drop schema benchmark cascade")


if __name__ == "__main__":
    main()
