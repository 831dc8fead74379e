"""A PostgreSQL server that keeps its data between runs, a copy of a memory file in it, and a slow way to reach it."""

import asyncio
import multiprocessing
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from client import ROOT
from numpy.typing import NDArray

sys.path.append(str(ROOT / "tests"))  # behind this folder, which has modules of the same names
from clusters import Cluster, given_away, make_cluster, template

SETTINGS = {"fsync": "on", "shared_buffers": "1GB", "maintenance_work_mem": "2GB", "max_wal_size": "4GB"}
"""What differs from the defaults of PostgreSQL."""

SCHEMA = "memory"
SOCKET = ".s.PGSQL.5432"


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start the server whose data are in a folder, or a new one; its path must be short, as those of sockets are."""
    if not (folder / "data").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_cluster(given_away(folder))
    cluster = Cluster(folder, template().programs, dict(SETTINGS))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def copied(cluster: Cluster, file: Path) -> float | None:
    """Copy a memory file into the server, as `vector-memory copy` does; return the seconds, None: it was there."""
    url = address(cluster)
    known = cluster.folder / "copied"
    if known.exists():
        return None
    began = time.perf_counter()
    subprocess.run([sys.executable, ROOT / "main.py", "copy", str(file), url], check=True, capture_output=True)
    took = time.perf_counter() - began
    known.write_text(f"{took:.1f}")
    return took


def seconds_to_copy(cluster: Cluster) -> float:
    """Return how long copying took when it was done."""
    return float((cluster.folder / "copied").read_text())


def size_mb(cluster: Cluster) -> float:
    """Return the size of the memory's tables with their indexes in MB (10**6)."""
    with psycopg.connect(address(cluster)) as connection:
        sql = """
            select sum(pg_total_relation_size(oid)) from pg_class
            where relkind = 'r' and relnamespace = %s::regnamespace
        """
        return float(connection.execute(sql, (SCHEMA,)).fetchall()[0][0]) / 1e6


def index_mb(connection: Any, name: str) -> float:
    """Return the size of an index in MB (10**6)."""
    return float(connection.execute("select pg_relation_size(%s::regclass)", (name,)).fetchall()[0][0]) / 1e6


def vectors_near(connection: Any, count: int) -> NDArray[np.float32]:
    """Return unit vectors between stored ones and random ones, shape (count, dimensions)."""
    sql = "select embedding from memory_passages tablesample bernoulli (5) repeatable (1) limit %s"
    rows = connection.execute(sql, (count,), binary=True).fetchall()
    stored = np.frombuffer(b"".join(row[0] for row in rows), ">f4").reshape(len(rows), -1)[:, 1:].astype(np.float32)
    noise = np.random.default_rng(1).standard_normal(stored.shape).astype(np.float32) / stored.shape[1] ** 0.5
    near: NDArray[np.float32] = stored + noise
    return near / np.linalg.norm(near, axis=1, keepdims=True)


def address(cluster: Cluster, through: Path | None = None) -> str:
    """Return the URL of the memory; `through`: the folder of a socket that passes everything on."""
    return f"postgresql://postgres@/postgres?host={through or cluster.folder}"


@contextmanager
def delayed(cluster: Cluster, seconds: float) -> Iterator[str]:
    """Yield a URL by which every round trip takes so much longer, as in a network."""
    folder = cluster.folder / "slow"
    folder.mkdir(exist_ok=True)
    (folder / SOCKET).unlink(missing_ok=True)
    process = multiprocessing.get_context("spawn").Process(
        target=pass_on, args=(str(folder / SOCKET), str(cluster.folder / SOCKET), seconds), daemon=True
    )
    process.start()
    try:
        while not (folder / SOCKET).exists():
            time.sleep(0.01)
        yield address(cluster, folder)
    finally:
        process.terminate()
        process.join()


def pass_on(listening: str, target: str, seconds: float) -> None:
    """Accept connections at one socket, and pass everything on to another: to it later, from it at once."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, later: float) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(1 << 16):
            if later:
                loop.call_later(later, writer.write, data)
            else:
                writer.write(data)
        loop.call_later(later, writer.close)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_unix_connection(target)
        with suppress(ConnectionError):
            await asyncio.gather(pump(reader, downstream, seconds), pump(upstream, writer, 0.0))

    async def serve() -> None:
        server = await asyncio.start_unix_server(connect, listening)
        await server.serve_forever()

    # The usual selector rounds up to milliseconds.
    asyncio.SelectorEventLoop(selectors.SelectSelector()).run_until_complete(serve())
