# ruff: noqa: S311 - what is chosen at random is no secret
"""Whether what was just stored is found at once and first, by the server that stored it and by another one.

    uv run benchmarks/performance/fresh.py [--servers 6] [--stores 8] [--before 100] [--backlog 0] [--spin 0]

Real servers share a file with notes that have vectors. Each stores notes, and searches for a sentence of each at once;
then half of them store, and the others search, or send the sentence as a prompt to a hook that recalls unasked. The
sentences are those of the documentation, each in one note: of texts that share their words, even a search of the words
alone finds others first. `--backlog`: reports of 5,000 tokens whose vectors are still to be computed then. `--spin`:
processes that keep the processors busy.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from client import ROOT, Server
from texts import SENTENCE, report
from timing import summary

SESSION = "fresh"
PROMPT = "a prompt to another server"
LIMIT = 5
IN_A_NOTE = 3


class Fresh:
    """Counts where fresh notes are found, and how long stores and searches take."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.times: dict[str, list[float]] = defaultdict(list)

    def store(self, server: Server, text: str) -> int:
        """Store a note and return its id."""
        began = time.perf_counter()
        answer = server.call("store_working_memory", agent_id="a", session_id=SESSION, content=text)
        self.times["store"].append((time.perf_counter() - began) * 1000)
        return int(answer["memory_id"])

    def search(self, who: str, server: Server, query: str, memory_id: int) -> None:
        """Search for a note by one of its sentences."""
        began = time.perf_counter()
        answer = server.call(
            "search_working_memory_specific_chunks", query=query, session_id=SESSION, limit=LIMIT, neighbours=0
        )
        self.times[f"search by {who}"].append((time.perf_counter() - began) * 1000)
        found = {hit["memory_id"]: (place, hit) for place, hit in reversed(list(enumerate(answer["results"])))}
        place, hit = found.get(memory_id, (None, None))
        self.counts[who]["missing" if place is None else "found" if place else "first"] += 1
        self.counts[who]["without similarity"] += hit is not None and hit["similarity"] is None

    def prompt(self, who: str, server: Server, prompt: str, memory_id: int) -> None:
        """Send a sentence of a note as a prompt, and look whether the note is told with it."""
        began = time.perf_counter()
        answer = server.request("tools/call", name="hook_prompt", arguments={"session_id": "own", "prompt": prompt})
        self.times[who].append((time.perf_counter() - began) * 1000)
        told = str(answer["content"][0]["text"]).partition(f"memory {memory_id},")
        self.counts[who]["missing" if not told[1] else "found" if "- memory" in told[0] else "first"] += 1


def notes(count: int) -> list[str]:
    """Return notes of distinct sentences."""
    pages = (" ".join(page.read_text(encoding="utf-8").split()) for page in sorted((ROOT / "docs").glob("*.md")))
    sentences = list(dict.fromkeys(found for page in pages for found in SENTENCE.findall(page)))
    random.Random(1).shuffle(sentences)
    assert len(sentences) >= count * IN_A_NOTE, "The documentation has not so many sentences: fewer stores."
    return [" ".join(sentences[IN_A_NOTE * number :][:IN_A_NOTE]) for number in range(count)]


def work(fresh: Fresh, who: str, storing: Server, asking: Server, texts: Sequence[str]) -> None:
    """Store notes with one server, and search for each at once with another one, or with the same."""
    for text in texts:
        memory_id, sentence = fresh.store(storing, text), text.partition(". ")[0]
        (fresh.prompt if who == PROMPT else fresh.search)(who, asking, sentence, memory_id)


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """Keep processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def compare(fresh: Fresh, servers: Sequence[Server], options: argparse.Namespace) -> None:
    """Fill the file, and then let all servers store and search."""
    half = len(servers) // 2
    texts = iter(notes(options.before + (len(servers) + 2 * half) * options.stores))
    for text in islice(texts, options.before):
        servers[0].call("store_working_memory", agent_id="a", session_id=SESSION, content=text)
    while servers[0].call("get_session_stats", session_id=SESSION)["without_vectors"]:
        time.sleep(0.5)
    for number in range(options.backlog):
        servers[0].call("store_report", agent_id="a", session_id="backlog", content=report(number))
    for server in servers:  # the first prompt of a session is told of the last session
        server.request("tools/call", name="hook_prompt", arguments={"session_id": "own", "prompt": "Good morning."})
    others = list(zip(servers[:half], servers[half:], strict=False))
    pairs = {"the same server": list(zip(servers, servers, strict=True)), "another server": others, PROMPT: others}
    with ThreadPoolExecutor(len(servers)) as threads:
        for who, both in pairs.items():
            tasks = [threads.submit(work, fresh, who, *pair, list(islice(texts, options.stores))) for pair in both]
            for task in tasks:
                task.result()
    lacking = servers[0].call("get_session_stats", session_id="backlog")["without_vectors"]
    print(f"still without vectors at the end: {lacking} of {options.backlog} reports")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"servers": 6, "stores": 8, "before": 100, "backlog": 0, "spin": 0}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options, fresh = parser.parse_args(), Fresh()
    with tempfile.TemporaryDirectory() as folder:
        recall = {"VECTOR_MEMORY_RECALL": "all"}
        servers = [Server(Path(folder) / "memory.db", settings=recall) for _ in range(options.servers)]
        for server in servers:
            server.initialize()
        with spinning(options.spin):
            compare(fresh, servers, options)
        for server in servers:
            server.stop()
    for who, counts in fresh.counts.items():
        kinds = ("first", "found", "missing", "without similarity")
        print(f"{who}: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    for what, times in fresh.times.items():
        print(f"{what}: " + ", ".join(f"{name} {value:.0f}" for name, value in summary(times).items()) + " (ms)")


if __name__ == "__main__":
    main()
