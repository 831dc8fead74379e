"""What an agent waits for when it stores: the receipt, and finding it in other words; before and after the vectors.

In both servers of a comparison everything happens in turn, so that a busy machine slows both down alike.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
from client import OUR_SERVER, Server
from texts import prompt, report
from timing import Figures, summary, timed

WAYS = {"before the vectors": "--embed-in-background", "after the vectors": "--no-embed-in-background"}
SESSION = "acknowledged"
REPORTS, NOTES = 8, 40
REPORTS_EACH = 20
POLL_SECONDS = 0.05


def measure(folder: Path) -> dict[str, dict[str, Figures]]:
    """Let one server of each way store reports of 5,000 tokens and notes; ms by way and what was waited for."""
    servers = {way: ready(folder / f"{way}.db", flag) for way, flag in WAYS.items()}
    values: dict[str, dict[str, list[float]]] = {way: defaultdict(list) for way in WAYS}
    for number in range(REPORTS):
        for way, server in servers.items():
            receipt = timed(partial(store_report, server, report(number)))
            finding = timed(partial(until_found, server, number))
            values[way]["receipt of a report of 5,000 tokens"].append(receipt)
            values[way]["until it is found by meaning"].append(receipt + finding)
    for number in range(NOTES):
        for way, server in servers.items():
            values[way]["receipt of a note"].append(timed(partial(store_note, server, number)))
    for server in servers.values():
        server.stop()
    return {way: {what: summary(each) for what, each in of_way.items()} for way, of_way in values.items()}


def measure_together(folder: Path, processes: int) -> dict[str, Figures]:
    """Let servers on one file store reports of 5,000 tokens at once; receipts in ms, and seconds until all is done."""
    return {way: together(folder / f"{way} together.db", flag, processes) for way, flag in WAYS.items()}


def together(path: Path, flag: str, processes: int) -> Figures:
    """Let servers of one way store, and wait for the last vectors."""
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
    return summary(times) | {"s to the last receipt": stored, "s to the last vector": done, "processor s": used / 1000}


def ready(path: Path, flag: str) -> Server:
    """Start a server whose model is loaded."""
    server = Server(command=[*OUR_SERVER, str(path), flag])
    server.initialize()
    server.call("search_reports_specific_chunks", query="anything")
    return server


def store_report(server: Server, text: str) -> None:
    """Store a report."""
    server.call("store_report", agent_id="agent", session_id=SESSION, content=text)


def store_note(server: Server, number: int) -> None:
    """Store a note."""
    server.call("store_working_memory", agent_id="agent", session_id=SESSION, content=prompt(number))


def until_found(server: Server, number: int) -> None:
    """Search in words that no report has until all that was stored can be found by meaning."""
    query = f"which component has to hold on until another one is done, {number}"

    def is_complete() -> bool:
        answer = server.call("search_reports_specific_chunks", query=query, session_id=SESSION)
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
