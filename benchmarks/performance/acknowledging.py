"""What an agent waits for when it stores: the receipt, and finding it in other words; before and after the vectors.

In both servers of a comparison everything happens in turn, so that a busy machine slows both down alike. Beside them,
in this process, a report is only embedded. Processor times are those of the whole server between call and receipt: they
include what its other threads have done meanwhile.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
from client import OUR_SERVER, Server
from texts import prompt, report
from timing import Figures, summary, timed

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.settings import Settings
from vector_memory.writing.indexer import Indexer

WAYS = {"before the vectors": "--embed-in-background", "after the vectors": "--no-embed-in-background"}
SESSION = "acknowledged"
REPORTS, NOTES = 12, 60
ROUNDS = 3
REPORTS_EACH = 6
POLL_SECONDS = 0.02

Values = dict[str, list[float]]


def measure(folder: Path) -> dict[str, dict[str, Figures]]:
    """Let one server of each way store reports of 5,000 tokens and notes; ms by way and what was waited for."""
    servers = {way: ready(folder / f"{way}.db", flag) for way, flag in WAYS.items()}
    values: dict[str, Values] = {way: defaultdict(list) for way in WAYS}
    indexer = loaded_indexer()
    for number in range(REPORTS):
        embedding = timed(partial(embed_report, indexer, report(number)))
        for way, server in servers.items():
            times = values[way]
            took = note(times, "a report of 5,000 tokens", receipt(server, partial(store_report, text=report(number))))
            found = took + timed(partial(until_found, server, number))
            times["until it is found by meaning"].append(found)
            times["embedding it and nothing else"].append(embedding)
            times["found by meaning / embedding, not ms"].append(found / embedding)
    for number in range(NOTES):
        for way, server in servers.items():
            note(values[way], "a note", receipt(server, partial(store_note, text=prompt(number))))
            until_found(server, number, "working_memory")  # so that nothing else is under way
    for server in servers.values():
        server.stop()
    return {way: {what: summary(each) for what, each in of_way.items()} for way, of_way in values.items()}


def receipt(server: Server, store: Callable[[Server], object]) -> Figures:
    """Store; return how long the receipt took, and what of the processor."""
    before = server.cpu_ms()
    took = timed(partial(store, server))
    return {"receipt": took, "receipt, processor time": server.cpu_ms() - before}


def note(times: Values, what: str, figures: Figures) -> float:
    """Note what a receipt took; return how long."""
    for name, value in figures.items():
        times[name.replace("receipt", f"receipt of {what}")].append(value)
    return figures["receipt"]


def loaded_indexer() -> Indexer:
    """Return an indexer whose model is loaded."""
    settings = Settings()
    indexer = Indexer(EmbeddingModel(lambda: load_embedder(settings)), settings)
    embed_report(indexer, "Anything.")
    return indexer


def embed_report(indexer: Indexer, text: str) -> None:
    """Compute the vectors of a report."""
    indexer.embed(indexer.unit_texts("report", None, text, indexer.chunk("report", text)))


def measure_together(folder: Path, processes: int) -> dict[str, Figures]:
    """Let servers on one file store reports of 5,000 tokens at once; receipts in ms, and seconds until all is done.

    In some rounds of each way, in turn; the totals are medians of the rounds.
    """
    rounds: dict[str, list[tuple[list[float], Figures]]] = {way: [] for way in WAYS}
    for number in range(ROUNDS):
        for way, flag in WAYS.items():
            rounds[way].append(together(folder / f"{way} together {number}.db", flag, processes))
    return {way: joined(of_way) for way, of_way in rounds.items()}


def joined(rounds: list[tuple[list[float], Figures]]) -> Figures:
    """Return the figures of all receipts of some rounds, and the medians of the totals."""
    receipts = [took for times, _ in rounds for took in times]
    totals = [each for _, each in rounds]
    return summary(receipts) | {what: statistics.median(each[what] for each in totals) for what in totals[0]}


def together(path: Path, flag: str, processes: int) -> tuple[list[float], Figures]:
    """Let servers of one way store, and wait for the last vectors; return the receipts in ms, and the totals."""
    with ThreadPoolExecutor(processes) as threads:
        servers = list(threads.map(lambda _: ready(path, flag), range(processes)))

        def store_all(first: int) -> list[float]:
            numbers = range(first * REPORTS_EACH, (first + 1) * REPORTS_EACH)
            return [timed(partial(store_report, servers[first], report(number))) for number in numbers]

        before = sum(server.cpu_ms() for server in servers)
        began = time.perf_counter()
        times = [took for some in threads.map(store_all, range(processes)) for took in some]
        stored = time.perf_counter() - began
        wait_until(lambda: not without_vectors(path))
        done = time.perf_counter() - began
        used = sum(server.cpu_ms() for server in servers) - before
        list(threads.map(Server.stop, servers))
    return times, {"s to the last receipt": stored, "s to the last vector": done, "processor s": used / 1000}


def ready(path: Path, flag: str, settings: Mapping[str, str] | None = None) -> Server:
    """Start a server whose model is loaded."""
    server = Server(command=[*OUR_SERVER, str(path), flag], settings=settings)
    server.initialize()
    server.call("search_reports_specific_chunks", query="anything")
    return server


def store_report(server: Server, text: str) -> None:
    """Store a report."""
    server.call("store_report", agent_id="agent", session_id=SESSION, content=text)


def store_note(server: Server, text: str) -> None:
    """Store a note."""
    server.call("store_working_memory", agent_id="agent", session_id=SESSION, content=text)


def until_found(server: Server, number: int, kind: str = "reports") -> None:
    """Search in words that nothing has been stored in, until all that was stored can be found by meaning."""
    query = f"which component has to hold on until another one is done, {number}"

    def is_complete() -> bool:
        answer = server.call(f"search_{kind}_specific_chunks", query=query, session_id=SESSION)
        return "vectors and may be found by words only" not in (answer["message"] or "")

    wait_until(is_complete)


def without_vectors(path: Path) -> int:
    """Return how many memories of a file still lack vectors."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(10_000)
        return int(connection.execute("select count(*) from session_memories where embedding_model_id is null").get)
    finally:
        connection.close()


def wait_until(holds: Callable[[], object]) -> None:
    """Return as soon as the condition is true."""
    while not holds():
        time.sleep(POLL_SECONDS)
