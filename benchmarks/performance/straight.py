"""A search, straight through: beside the original design, the goals, and another checkout of ours, all in one run.

    uv run benchmarks/performance straight --passages 1000 10000 [--before CHECKOUT] [--files DIR] [--rounds 3]

The package of each checkout has a process of its own. Its ways of searching and the original design take turns with
each question, and so do the checkouts, with the same questions. Of the `mixed` ones every second is the beginning of a
stored sentence, which mostly has a strong match; of the others, `none` has one. Times are ms of the processor beyond
embedding, by the thread, but over stdio by the whole process, which remembers the question that was embedded the call
before, for a search where nothing is stored. A figure is the median of the rounds' medians, a ratio that of their
ratios. The first round does not count.
"""

import itertools
import json
import shutil
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from baselines import Baselines
from cells import number as shown
from cells import table
from client import Server
from files import environment, file_for, opened, parts, sentences
from grains import GRAINS
from metering import MeteredEmbedder
from starting import EMPTY_SERVER, SECONDS_TO_SETTLE
from texts import mixed, prompt, question

from vector_memory.domain import Scope
from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

QUESTIONS, FEW = 12, 4
"""In a round; before the memory of a server is looked at."""
PROCESSES, SESSIONS_OF_A_TOKEN = 8, 50
SMALL, MIDDLE, LARGE, HUGE, LARGEST = 1_000, 10_000, 100_000, 1_000_000, 10_000_000
KINDS = ("mixed", "none")
TOOLS = tuple(f"search_reports_{name}" for name in ("specific_chunks", "section_context", "full_documents"))
EMBEDDING_TOOL = "search_knowledge_base_specific_chunks"
"""Embeds a question, and finds nothing."""

SESSION = {name: GRAINS[way] for name, way in {"fine": "fine", "medium": "medium", "coarse": "coarse, best"}.items()}
WIDE = ("one agent", "everything", "limited token")
BESIDE = {"fine": "original", "medium": "fine", "coarse": "fine", "whole call": "bare tool", "eight at once": "alone"}
"""What a way of searching is compared with."""

Goal = tuple[float, str]
"""A limit, and of what: `x` what stands beside it, `x before`, `ms` or `MB`."""
EVERYWHERE: dict[str, Goal] = {"medium": (1.15, "x"), "coarse": (1.15, "x")}
GOALS: dict[int, dict[str, Goal]] = {
    SMALL: {"fine, mixed": (0.8, "x"), "fine, none": (0.95, "x"), "whole call": (7.5, "ms")},
    MIDDLE: {"fine, mixed": (0.35, "x"), "fine, none": (0.4, "x"), "eight at once": (1.1, "x")},
    LARGE: {"fine": (9, "ms")},
    HUGE: {"fine": (10, "ms"), "memory": (190, "MB"), **dict.fromkeys(WIDE, (0.5, "x before"))},
    LARGEST: {"fine": (15, "ms")},
}

Rounds = dict[str, list[float]]
"""By way and kind of question the medians of the rounds."""
Side = tuple[Path, Path]
"""A checkout, and the file that its package searches."""


def worker(stack: ExitStack, checkout: Path, file: Path, script: str = __file__) -> Server:
    """Start a process that uses a file with the package of a checkout; default: with the methods of `Searches`."""
    started = Server(command=[sys.executable, script, str(file)], settings=environment(checkout))
    stack.callback(started.stop)
    return started


class Searches:
    """What a worker does."""

    def __init__(self, store: SessionMemoryStore, meter: MeteredEmbedder, file: Path) -> None:
        self._store, self._meter, self._file = store, meter, file
        with closing(opened(file)) as connection:
            session, _, agent, everything = (part.scope for part in parts(connection).values())
            self._session, self._sentences = session, sentences(connection, session.session_id)
            names = [name for (name,) in connection.execute("select distinct session_id from session_memories")]
        limited = store.limited_to(names[:: -(-len(names) // SESSIONS_OF_A_TOKEN)])
        fine = GRAINS["fine"]
        self._ways: dict[str, Callable[[str], Any]] = {
            **{name: lambda text, search=search: search(store, text, session) for name, search in SESSION.items()},
            "one agent": lambda text: fine(store, text, agent),
            "everything": lambda text: fine(store, text, everything),
            "limited token": lambda text: fine(limited, text, everything),
        }

    def store(self, number: int) -> dict[str, Any]:
        """Store a short report in the session that is searched."""
        self._store.store_memory("report", prompt(number), session_id=self._session.session_id, agent_id="another")
        return {}

    def ask(self, number: int, ways: Sequence[str], kinds: Sequence[str]) -> dict[str, Any]:
        """Ask something new in each way; return the times, and what was answered."""
        times, said = {}, {}
        if "original" in ways and "original" not in self._ways:
            self._ways["original"] = self._original()
        for (place, way), kind in itertools.product(enumerate(ways), kinds):
            text = text_of(kind, place * LARGE + number, self._sentences)
            answers: list[Any] = []
            took = self._meter.beyond_embedding(lambda: answers.append(self._ways[way](text)))  # noqa: B023 - at once
            times[f"{way}, {kind}"], said[f"{way}, {kind}"] = took, [text, *told(answers[0])]
        return {"times": times, "said": said}

    def _original(self) -> Callable[[str], Any]:
        baselines, scope = Baselines(self._file), Scope(self._session.kind, session_id=self._session.session_id)
        return lambda text: baselines.original(self._meter.embed([text])[0], scope)


def text_of(kind: str, number: int, stored: Sequence[str]) -> str:
    """Return a new question of a kind."""
    return mixed(number, stored) if kind == "mixed" else question(LARGEST + number)


def told(answer: Any) -> tuple[Any, ...]:
    """Return what two versions should agree on."""
    names = ("chunk_id", "memory_id", "id", "score", "match")
    found = [[getattr(one, name, None) for name in names] for one in getattr(answer, "results", ())]
    return getattr(answer, "confidence", None), getattr(answer, "elsewhere", None), found


def work(worker: object) -> None:
    """Do what standard input says."""
    for line in sys.stdin:
        order = json.loads(line)
        result = getattr(worker, order["method"])(**order["params"])
        print(json.dumps({"id": order["id"], "result": result}), flush=True)


def measure(
    checkouts: Mapping[str, Path], sizes: Sequence[int], place: Path, documents: Path, rounds: int
) -> dict[str, Any]:
    """Measure each checkout in files of these numbers of passages."""
    figures = {}
    for passages in sizes:
        sides = {name: (path, file_for(path, passages, place, documents)) for name, path in checkouts.items()}
        figures[str(passages)] = each = searched(sides, passages, rounds)
        for name, side in sides.items():
            each["rounds"][name] |= eight(*side, place, rounds) if passages == MIDDLE else {}
        over_stdio(sides, rounds, each["rounds"])
    return figures


def searched(sides: Mapping[str, Side], passages: int, rounds: int) -> dict[str, Any]:
    """Search a session in every grain, and all of a large file; return each side's rounds, and how sides differ."""
    ways = [*SESSION, *(["original"] if passages <= LARGE else WIDE)]
    found: dict[str, Rounds] = {name: defaultdict(list) for name in sides}
    different, levels = list[str](), list[str]()
    with ExitStack() as stack:
        workers = {name: worker(stack, *side) for name, side in sides.items()}
        for first in range(0, (rounds + 1) * QUESTIONS, QUESTIONS):
            times = {name: defaultdict[str, list[float]](list) for name in sides}
            for number in range(first, first + QUESTIONS):
                said = {}
                for name in sorted(workers, reverse=bool(number % 2)):
                    answer = workers[name].request("ask", number=number, ways=ways, kinds=KINDS)
                    said[name] = answer["said"]
                    for way, took in answer["times"].items():
                        times[name][way].append(took)
                levels.append(said["ours"]["fine, mixed"][1])
                for way, ours in said["ours"].items():
                    different += [f"{way}: {ours[0]}" for each in said.values() if each[way] != ours]
            for name, each in times.items() if first else ():
                for way, values in each.items():
                    found[name][way].append(statistics.median(values))
    return {"rounds": found, "different answers": different, "strong, %": 100 * levels.count("strong") / len(levels)}


def over_stdio(sides: Mapping[str, Side], rounds: int, found: dict[str, Rounds]) -> None:
    """Call a tool of the real servers, and one that does nothing; then search all, and note what memory it takes."""
    with closing(opened(sides["ours"][1])) as connection:
        session, _, agent, _ = (part.scope for part in parts(connection).values())
        stored = sentences(connection, session.session_id)
    servers = {name: Server(file, settings=environment(checkout)) for name, (checkout, file) in sides.items()}
    servers["bare"] = Server(command=[sys.executable, "-c", EMPTY_SERVER])
    for server in servers.values():
        server.initialize()
    for number, kind in itertools.product(range(rounds + 1), KINDS):
        times: dict[str, list[float]] = {name: [] for name in servers}
        for place, (name, server) in itertools.product(range(QUESTIONS), servers.items()):
            if name == "bare":
                times[name].append(processor_ms(server, "nothing"))
                continue
            text = text_of(kind, HUGE + number * QUESTIONS + place, stored)
            server.call(EMBEDDING_TOOL, query=text)
            times[name].append(processor_ms(server, TOOLS[0], query=text, session_id=session.session_id))
        for (name, each), what in itertools.product(found.items() if number else (), ("whole call", "bare tool")):
            values = times[name if what == "whole call" else "bare"]
            each.setdefault(f"{what}, {kind}", []).append(statistics.median(values))
    wheres: tuple[dict[str, Any], ...] = ({"session_id": session.session_id}, {"agent_id": agent.agent_id}, {})
    for name, where, tool, number in itertools.product(sides, wheres, TOOLS, range(FEW)):
        servers[name].call(tool, query=question(number), **where)
    time.sleep(SECONDS_TO_SETTLE)
    for name, each in found.items():
        each["memory"] = [servers[name].memory_mb("RssAnon")]
    for server in servers.values():
        server.stop()


def processor_ms(server: Server, tool: str, **arguments: Any) -> float:
    """Call a tool; return the processor time of the server."""
    before = server.cpu_ms()
    server.call(tool, **arguments)
    return server.cpu_ms() - before


def eight(checkout: Path, file: Path, place: Path, rounds: int) -> Rounds:
    """Search in one process alone, and then in eight at once while another stores every second."""
    copy = Path(shutil.copy(file, place / "copy.db"))
    found: Rounds = {"eight at once": [], "alone": []}
    with ExitStack() as stack, ThreadPoolExecutor(PROCESSES + 1) as threads:
        storing, *workers = [worker(stack, checkout, copy) for _ in range(PROCESSES + 1)]

        def block(searching: Sequence[Server], number: int) -> float:
            """Let processes search at once; return the median of their times."""
            numbers, fine = range(number * QUESTIONS, (number + 1) * QUESTIONS), {"ways": ["fine"], "kinds": KINDS[:1]}
            every = threads.map(lambda one: [one.request("ask", number=each, **fine) for each in numbers], searching)
            return statistics.median(answer["times"]["fine, mixed"] for answers in every for answer in answers)

        block(workers, 0)
        for number in range(1, 2 * rounds, 2):
            found["alone"].append(block(workers[:1], number))
            over = threading.Event()
            stored = threads.submit(store_until, over, storing, number * LARGE)
            found["eight at once"].append(block(workers, number + 1))
            over.set()
            stored.result()
    for path in place.glob("copy.db*"):
        path.unlink()
    return found


def store_until(over: threading.Event, storing: Server, first: int) -> None:
    """Let a process store every second."""
    for number in itertools.count(first):
        storing.request("store", number=number)
        if over.wait(1):
            return


def rows(figures: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield a row for each way of searching, with what stands beside it and its goal."""
    for size, each in figures.items():
        ours, before = each["rounds"]["ours"], each["rounds"].get("before", {})
        for way, values in ours.items():
            what, _, kind = way.partition(", ")
            if what in ("original", "bare tool", "alone"):
                continue
            beside = ", ".join(filter(None, (BESIDE.get(what), kind)))
            figure = {"x": ratio(values, ours.get(beside)), "x before": ratio(values, before.get(way))}
            figure["ms"] = figure["MB"] = statistics.median(values)
            limit, of = GOALS.get(int(size), {}).get(way) or goal(int(size), what) or (0, "ms")
            yield [
                way, f"{int(size):,}", f"<= {limit:g} {of}" if limit else "",
                "" if not limit or figure[of] is None else "met" if figure[of] <= limit else "missed",
                shown(figure["ms"]),
                f"{beside.partition(',')[0]} {shown(statistics.median(ours[beside]))}" if figure["x"] else "",
                f"{figure['x']:.2f}" if figure["x"] else "",
                *([shown(statistics.median(before[way])), f"{figure['x before']:.2f}"] if before else []),
            ]  # fmt: skip


def goal(size: int, what: str) -> Goal | None:
    """Return the goal of a way of searching, for whatever questions."""
    return GOALS.get(size, {}).get(what) or EVERYWHERE.get(what)


def ratio(values: Sequence[float], others: Sequence[float] | None) -> float | None:
    """Return the median of the rounds' ratios; None if there is nothing to compare with."""
    pairs = zip(values, others or (), strict=False)
    return statistics.median(value / other for value, other in pairs) if others else None


def tables(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table, and what it does not say."""
    is_compared = any("before" in each["rounds"] for each in figures.values())
    head = ["processor ms beyond embedding, or MB", "passages", "goal", "", "ours", "beside it", "ratio"]
    yield table([*head, *(["before", "ours / before"] if is_compared else [])], rows(figures))
    for size, each in figures.items():
        different = each["different answers"]
        yield f"{int(size):,} passages: {each['strong, %']:.0f} % of the mixed questions have a strong match."
        if is_compared:
            yield "\n".join([f"{len(different)} answers differ from those before.", *(f"- {one}" for one in different)])


if __name__ == "__main__":
    searched_file, meter = Path(sys.argv[1]), MeteredEmbedder(load_embedder(Settings()), time.thread_time)
    with SessionMemoryStore(searched_file, embedder=meter) as store:  # type: ignore[arg-type]
        work(Searches(store, meter, searched_file))
