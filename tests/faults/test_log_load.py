"""The write-ahead log under a heavy load of several servers: only `LONG_TESTS=1` runs this."""

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.effort import LONG
from faults.server import Server
from waiting import eventually

SECONDS = int(os.environ.get("LOG_LOAD_SECONDS", "600"))
SEARCHING, UNDER_WAY, STORING = 3, 8, 2
MOST, SHORT = 20_000_000, 4_000_000
WORDS = ("agent", "cache", "chunk", "fast", "index", "lock", "log", "memory", "proxy", "query", "section", "table")
SEARCHES = ("search_reports_specific_chunks", "search_reports_section_context", "search_reports_full_documents")

pytestmark = [pytest.mark.skipif(not LONG, reason="takes ten minutes"), pytest.mark.timeout(SECONDS + 300)]


def some_words(source: random.Random, count: int) -> str:
    return " ".join(f"{source.choice(WORDS)}{source.randrange(200)}" for _ in range(count))


def searches(number: int, going_on: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of searches as long as the load lasts."""
    source = random.Random(number)
    while going_on():
        yield {"name": source.choice(SEARCHES), "arguments": {"query": some_words(source, 3)}}


def stores(number: int, going_on: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of stores of two to seven sections each."""
    source = random.Random(number)
    for count in itertools.takewhile(lambda _: going_on(), itertools.count()):
        sections = [f"## Part {part}\n\n{some_words(source, 120)}" for part in range(source.randrange(2, 8))]
        content = f"# Finding {number}.{count}\n\n" + "\n\n".join(sections)
        place = {"agent_id": f"a{number}", "session_id": f"s{count % 20}"}
        yield {"name": "store_report", "arguments": {"content": content, **place}}


def failures(server: Server, calls: Iterator[dict[str, Any]], under_way: int) -> list[Any]:
    """Make the calls and return the answers that are no success."""
    answers = server.answers("tools/call", calls, under_way)
    return [answer for answer in answers if not answer["structuredContent"]["success"]]


def log_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def test_the_log_stays_short_while_servers_search_and_store_without_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(path)) for _ in range(SEARCHING + STORING)]
        threads = stack.enter_context(ThreadPoolExecutor(len(servers)))
        end = time.monotonic() + SECONDS

        def going_on() -> bool:
            return time.monotonic() < end

        running = [
            threads.submit(failures, server, make(number, going_on), under_way)
            for number, (server, make, under_way) in enumerate(
                [(server, searches, UNDER_WAY) for server in servers[:SEARCHING]]
                + [(server, stores, 1) for server in servers[SEARCHING:]]
            )
        ]
        largest = 0
        while not all(done.done() for done in running):
            largest = max(largest, log_size(path))
            time.sleep(0.05)
        assert [done.result() for done in running] == [[]] * len(servers)
        assert largest <= MOST
        eventually(lambda: log_size(path) < SHORT)
