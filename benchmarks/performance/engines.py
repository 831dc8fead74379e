"""Both storage engines in one run: the same memories in a SQLite file and in PostgreSQL, the same questions and stores.

uv run --group benchmark benchmarks/performance engines --passages N --files DIR [--docs]

PostgreSQL runs on this machine, with its data in DIR; it is reached through a socket, and through one with a delay of
1 ms for each round trip. Both engines write every commit to the disk before they acknowledge it. Times are without
embedding the query or the text.
"""

import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import cluster
import numpy as np
from cluster import Cluster
from files import Part, opened, parts, shares, size_mb
from grains import GRAINS
from metering import MeteredEmbedder
from texts import prompt, question, report
from timing import Figures, summary, timed

from vector_memory.domain import Scope
from vector_memory.embedding import Embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.extras.postgres import approximate, candidates
from vector_memory.extras.postgres.connection import Connection
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SQLITE, POSTGRES, DISTANT = "SQLite", "PostgreSQL", "PostgreSQL, 1 ms away"
PLAIN = {name: f"{name} without late interaction" for name in (SQLITE, POSTGRES)}
DELAY_SECONDS = 0.001
RUNS = 30
STORES = {"short prompt": ("input_prompt", prompt, 100), "report of 5,000 tokens": ("report", report, 10)}
PROCESSES = 8
START_SECONDS = 60
"""How long processes may take to begin; one that failed would keep the others waiting."""

STORES_EACH = 150
QUERIES = 10
WORDS_ASKED = 10
RARE = 10_000

Address = Path | str
Figure = dict[str, Any]


def measure(file: Path, folder: Path, engine: Embedder) -> Figure:
    """Measure everything; `folder` keeps the data of the server."""
    with cluster.running(folder) as server, cluster.delayed(server, DELAY_SECONDS) as distant:
        copying = cluster.copied(server, file)
        addresses: dict[str, Address] = {SQLITE: file, POSTGRES: cluster.address(server), DISTANT: distant}
        with opened(file) as connection:
            where, filtered = parts(connection), shares(connection)
            asked = {name: questions(connection, part.scope) for name, part in where.items()}
        figures = {
            "searches": searched(addresses, engine, where, asked),
            "sizes": {
                SQLITE: {"MB": size_mb(file)},
                POSTGRES: {
                    "MB": cluster.size_mb(server),
                    "seconds to copy": copying or cluster.seconds_to_copy(server),
                },
            },
            "index": approximately(server, {"no filter": where["one kind, everything"]} | filtered),
        }
    # Not where TMPDIR says: the paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="vm-", dir="/tmp") as empty:
        Path(empty).chmod(0o755)
        with cluster.running(Path(empty) / "pg") as server, cluster.delayed(server, DELAY_SECONDS) as distant:
            new: dict[str, Address] = {
                SQLITE: Path(empty) / "stores.db",
                POSTGRES: cluster.address(server),
                DISTANT: distant,
            }
            figures["stores"] = stored(new, engine)
            figures["processes"] = {
                name: {count: stored_together(new[name], count) for count in (1, PROCESSES)}
                for name in (SQLITE, POSTGRES)
            }
    return figures


# Searching


def questions(connection: apsw.Connection, scope: Scope) -> list[str]:
    """Return the first words of texts in a scope, to which the scope has something close, and a number each."""
    fields = {name: value for name in ("session_id", "agent_id") if (value := getattr(scope, name)) is not None}
    condition = " and ".join(f"m.{name} = ?" for name in fields) or "true"
    sql = f"""
        select c.content from memory_chunks c join session_memories m on m.id = c.parent_id
        where {condition} order by c.id limit 5000
    """  # noqa: S608 - the names of fields are this module's own
    texts = [text for (text,) in connection.execute(sql, list(fields.values()))]
    random.Random(1).shuffle(texts)  # noqa: S311 - protects nothing
    words = [" ".join(text.split()[:WORDS_ASKED]) for text in texts[: RUNS + 1]]
    return [f"{some} {number}" for number, some in enumerate(words)]


def searched(
    addresses: dict[str, Address], engine: Embedder, where: dict[str, Part], asked: dict[str, list[str]]
) -> Figure:
    """Search each scope by each address in turn."""
    plain = {PLAIN[name]: addresses[name] for name in PLAIN}
    with opened_at(addresses | plain, engine) as stores, counted_trips() as trips:
        far = [question(number) for number in range(RUNS + 1)]
        return {
            f"{name}, {how}": alternated(stores, part.scope, queries, trips)
            for name, part in where.items()
            for how, queries in (("something close", asked[name]), ("nothing close", far))
        }


@contextmanager
def opened_at(
    addresses: dict[str, Address], engine: Embedder
) -> Iterator[dict[str, tuple[SessionMemoryStore, MeteredEmbedder]]]:
    """Yield a store at each address, with its embedder. Those with the names of PLAIN compare no tokens."""
    with ExitStack() as stack:
        stores = {}
        for name, address in addresses.items():
            settings, meter = Settings(late_interaction=name not in PLAIN.values()), MeteredEmbedder(engine)
            stores[name] = stack.enter_context(SessionMemoryStore(address, settings, embedder=meter)), meter
        yield stores


def alternated(
    stores: dict[str, tuple[SessionMemoryStore, MeteredEmbedder]],
    scope: Scope,
    queries: list[str],
    trips: Callable[[], int],
) -> dict[str, Figures]:
    """Ask each store the same questions; the first does not count. Times in ms, and the median of round trips."""
    times: dict[str, list[float]] = {name: [] for name in stores}
    made: dict[str, list[int]] = {name: [] for name in stores}
    for query in queries:
        for name, (store, meter) in stores.items():
            trips()
            times[name].append(meter.beyond_embedding(partial(GRAINS["fine"], store, query, scope)))
            made[name].append(trips())
    return {name: summary(own[1:]) | {"round trips": statistics.median(made[name][1:])} for name, own in times.items()}


@contextmanager
def counted_trips() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the round trips to PostgreSQL since it was called last."""
    made, send = 0, Connection._send  # noqa: SLF001 - where every round trip is made

    def counted(connection: Connection, statements: Any) -> Any:
        nonlocal made
        made += 1
        return send(connection, statements)

    def asked() -> int:
        nonlocal made
        made, before = 0, made
        return before

    with mock.patch.object(Connection, "_send", counted):
        yield asked


# Storing


def stored(addresses: dict[str, Address], engine: Embedder) -> Figure:
    """Store the same texts by each address in turn. Times in ms, without embedding and tokenizing."""
    times: Figure = {what: {name: [] for name in addresses} for what in STORES}
    with opened_at(addresses, engine) as stores:
        for what, (kind, make, count) in STORES.items():
            for number in range(count + 1):
                for name, (store, meter) in stores.items():
                    storing = partial(store.store_memory, kind, make(number), session_id=name)
                    times[what][name].append(meter.beyond_embedding(storing))
    return {what: {name: summary(own[1:]) for name, own in each.items()} for what, each in times.items()}


def stored_together(address: Address, processes: int) -> float:
    """Return how many prompts processes store a second, together, with an embedder that costs nothing."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1, timeout=START_SECONDS)
    workers = [
        context.Process(target=store_many, args=(str(address), f"{processes}-{number}", start), daemon=True)
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return processes * STORES_EACH / (time.perf_counter() - began)


def store_many(address: str, agent: str, start: Any) -> None:
    """Store prompts in one process, from when all have begun."""
    place: Address = address if address.startswith("postgresql:") else Path(address)
    with SessionMemoryStore(place, embedder=ToyEngine()) as store:
        store.store_memory("input_prompt", f"{agent} begins", session_id=agent)
        start.wait()
        for number in range(STORES_EACH):
            store.store_memory("input_prompt", f"{agent}: {prompt(number)}", session_id=agent)


# The index of vectors


@contextmanager
def undone(store: SessionMemoryStore) -> Iterator[Connection]:
    """Yield a connection whose changes are undone at the end of the block."""
    with suppress(UndoneError), store._storage._database.write() as connection:  # noqa: SLF001
        yield connection
        raise UndoneError


class UndoneError(Exception):
    """Ends a transaction without its changes."""


def rare(connection: Connection) -> Part:
    """Give one passage in RARE, anywhere in the memory, a task of its own, and return what a filter for it finds."""
    sql = f"""
        update memory_passages set task_code = 'rare' where memory_type = 'report' and id %% {RARE} = 0
    """  # noqa: S608 - a number
    return Part(Scope("report", task_code="rare"), connection.execute(sql, {}).rowcount)


def approximately(server: Cluster, where: dict[str, Part]) -> Figure:
    """Compare searches by the index of vectors with exact ones, whatever the size of the scope.

    Times in ms of finding 200 passages; `recall`: the share of the ten nearest that was found.
    """
    address = cluster.address(server)
    building = timed(lambda: approximate.change(address, cluster.SCHEMA))
    figures: Figure = {}
    with SessionMemoryStore(address) as store, undone(store) as connection:
        queries = cluster.vectors_near(connection, QUERIES)
        size = cluster.index_mb(connection, approximate.NAME)
        for name, part in (where | {f"{1 / RARE:.2%}": rare(connection)}).items():
            recall, times = [], {"exact": [], "index": []}
            for query in queries:
                found = {}
                for way, own in times.items():
                    with mock.patch.object(approximate, "EXACT_PASSAGES", 0):
                        began = time.perf_counter()
                        nearest = candidates.nearest(
                            connection, part.scope, query, 200, (), approximately=way == "index"
                        )
                        own.append((time.perf_counter() - began) * 1_000)
                        found[way] = nearest[0][:10]
                assert len(found["index"]) == len(found["exact"])
                recall.append(len(np.intersect1d(found["index"], found["exact"])) / len(np.unique(found["exact"])))
            figures[name] = {
                "passages": part.passages,
                "recall": float(np.mean(recall)),
                **{way: summary(own) for way, own in times.items()},
            }
    approximate.change(address, cluster.SCHEMA, drop=True)
    return {"seconds to build": building / 1_000, "MB": size, "scopes": figures}
