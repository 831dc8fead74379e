"""Start and end: how long a client waits for both, compared with a FastMCP server with one empty tool."""

import sys
import time
from collections import defaultdict
from pathlib import Path

from client import Server
from timing import Figures, summary

EMPTY_SERVER = """
from fastmcp import FastMCP
server = FastMCP("empty")
@server.tool
def nothing() -> str:
    return ""
server.run(show_banner=False)
"""
OURS, EMPTY = "vector-memory", "FastMCP, one empty tool"
SECONDS_TO_LOAD, SECONDS_IDLE = 1.5, 2
SECONDS_TO_SETTLE = 1.5


def measure(folder: Path, runs: int) -> dict[str, dict[str, Figures]]:
    """Start both servers in turn and return, by server, times in ms and memory in MB. Caches are warm."""
    database = folder / "start.db"
    one_start(database)
    empty_start()
    values: dict[str, dict[str, list[float]]] = {OURS: defaultdict(list), EMPTY: defaultdict(list)}
    for _ in range(runs):
        for name, figures in ((EMPTY, empty_start()), (OURS, one_start(database))):
            for what, value in figures.items():
                values[name][what].append(value)
    return {name: {what: summary(each) for what, each in figures.items()} for name, figures in values.items()}


def empty_start() -> dict[str, float]:
    """Start FastMCP alone."""
    server = Server(command=[sys.executable, "-c", EMPTY_SERVER])
    figures = first_answers(server) | memory(server, "after tools/list")
    return figures | end(server)


def one_start(database: Path) -> dict[str, float]:
    """Start our server twice: to see what it takes while nothing is asked, and to search at once."""
    server = Server(database, settings={"VECTOR_MEMORY_EMBEDDING_IDLE_SECONDS": str(SECONDS_IDLE)})
    figures = first_answers(server) | memory(server, "after tools/list")
    time.sleep(SECONDS_TO_LOAD)
    figures |= memory(server, "model loaded")
    time.sleep(SECONDS_IDLE + 1)
    figures |= memory(server, "idle, model unloaded")
    begin = server.elapsed_ms()
    search_at_once(server)
    figures["a search when the model was unloaded"] = server.elapsed_ms() - begin
    server.stop()
    server = Server(database)
    listed = first_answers(server)["tools/list answered"]
    search_at_once(server)
    figures["first search answered"] = server.elapsed_ms()
    figures["first search after tools/list"] = server.elapsed_ms() - listed
    figures |= memory(server, "after a search")
    return figures | end(server)


def end(server: Server) -> dict[str, float]:
    """Hang up, and wait until the process has ended."""
    begin = server.elapsed_ms()
    server.stop()
    return {"ended after its client hung up": server.elapsed_ms() - begin}


def memory(server: Server, when: str) -> dict[str, float]:
    """Return the resident memory, and how much of it is not mapped from files, which all processes share."""
    return {f"MB, {when}": server.memory_mb(), f"MB, {when}, its own": server.memory_mb("RssAnon")}


def search_at_once(server: Server) -> None:
    """Ask something that only the model can answer."""
    server.call("search_reports_specific_chunks", query="which service holds the lock", search_mode="vector")


def first_answers(server: Server) -> dict[str, float]:
    """Shake hands and ask for the tools."""
    server.initialize()
    initialized = server.elapsed_ms()
    server.request("tools/list")
    listed = server.elapsed_ms()
    return {
        "initialize answered": initialized,
        "tools/list answered": listed,
        "processor time until then": server.cpu_ms(),
    }
