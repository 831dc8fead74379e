"""What dates and neighbours gain on conversations: recall in a judged set of turns whose times are known.

uv run benchmarks/retrieval/turns.py --set locomo_turns.json.gz [--cache DIR] [--neighbours N]

The set has `doc_date`: the time of each document, such as "1:56 pm on 8 May, 2023", which all turns of a session share.
Its documents are named CONVERSATION:SESSION:TURN. Each is stored as a working memory of its session, by the agent
CONVERSATION, with its time, and each question is asked of one agent.

Prints recall@10 of the questions that name a date: as they are, in the window that an agent would send (a day and the
week after it, or a month, or a year), and in that window without the date in the question. Then recall@5 of all
questions: of the hits alone, and of the hits with what stands beside them.
"""

import argparse
import gzip
import json
import re
from calendar import month_name
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from scoring import interval

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.embedding import load_embedder
from vector_memory.errors import DuplicateMemoryError
from vector_memory.search.neighbours import MAX_NEIGHBOURS
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SEED = 20
MONTHS = month_name[1:]
MONTH = f"(?P<month>{'|'.join(MONTHS)})"
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
DATE = re.compile(
    rf"\s*\b(?:on |in |of |during )?(?:{DAY} {MONTH},? (?P<y1>\d{{4}})|{MONTH.replace('month', 'm2')} "
    rf"{DAY.replace('day', 'd2')},? (?P<y2>\d{{4}})|{MONTH.replace('month', 'm3')},? (?P<y3>\d{{4}})|"
    rf"{MONTH.replace('month', 'm4')}|(?P<y5>20\d\d))\b"
)
SPOKEN = "%I:%M %p on %d %B, %Y"


class Dated(NamedTuple):
    """A question that names a date: the window an agent would send, and the question without the date."""

    question: Question
    after: str
    before: str
    rest: str


def dated(question: Question, year: str) -> Dated | None:
    """Return the question with its window if it names a day, a month or a year; a month without a year is of `year`."""
    found = DATE.search(question.text)
    if found is None:
        return None
    parts = {name: value for name, value in found.groupdict().items() if value}
    rest = question.text[: found.start()] + question.text[found.end() :]
    when = next((value for name, value in parts.items() if name.startswith("y")), year)
    month = next((MONTHS.index(value) + 1 for name, value in parts.items() if name.startswith("m")), None)
    day = parts.get("day") or parts.get("d2")
    if month is None:
        return Dated(question, when, when, rest)
    if day is None:
        return Dated(question, f"{when}-{month:02}", f"{when}-{month:02}", rest)
    first = datetime(int(when), month, int(day), tzinfo=UTC)
    return Dated(question, f"{first:%Y-%m-%d}", f"{first + timedelta(days=7):%Y-%m-%d}", rest)


def fill(store: SessionMemoryStore, judged: JudgedSet, dates: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Store every turn a second after the one before; yield which memory is which."""
    for agent, names in judged.scopes.items():
        for number, name in enumerate(names):
            at = datetime.strptime(dates[name], SPOKEN).replace(tzinfo=UTC) + timedelta(seconds=number)
            fields: Any = {"agent_id": agent, "session_id": name.rpartition(":")[0], "created_at": at.isoformat()}
            fields["metadata"] = {"project": agent}  # as hooks store a conversation
            try:
                receipt = store.store_memory(MemoryKind.WORKING_MEMORY, judged.documents[name], **fields)
            except DuplicateMemoryError:
                continue
            yield receipt.memory_id, name


class Asking:
    """Asks questions of a store whose memories are known by the names of the documents."""

    def __init__(self, store: SessionMemoryStore, judged: JudgedSet, documents: Mapping[int, str]) -> None:
        self._store = store
        self._documents = documents
        self._names: dict[tuple[str, str], str] = {}
        for name in judged.documents:
            self._names.setdefault((name.rpartition(":")[0], judged.documents[name]), name)

    def recall(self, question: Question, text: str, depth: int, neighbours: int = 0, **window: str) -> float:
        """Return the share of the question's evidence among the first results, or beside them."""
        scope = Scope(MemoryKind.WORKING_MEMORY, agent_id=question.scope, **window)
        found = self._store.search_chunks(text, scope, Page(limit=depth), neighbours=neighbours).results
        names = set()
        for hit in found:
            name = self._documents[hit.memory_id]
            names.add(name)
            session = name.rpartition(":")[0]
            names |= {self._names.get((session, beside), "") for beside in (*hit.context_before, *hit.context_after)}
        return len(names & question.grades.keys()) / len(question.grades)


def show(label: str, values: Sequence[float], base: Sequence[float]) -> None:
    """Print a mean, and how much more it is than the base, with its 95 % interval."""
    mean, low, high = interval([np.array(values) - np.array(base)], SEED)
    print(f"| {label} | {np.mean(values):.3f} | {mean:+.3f} ({low:+.3f} to {high:+.3f}) |")


def measure(asking: Asking, questions: Sequence[Question], of_time: Sequence[Dated], neighbours: int) -> None:
    """Ask everything and print both tables."""
    print(f"| R@10 of {len(of_time)} questions with a date | mean | gain |\n|---|---|---|")
    plain = [asking.recall(one.question, one.question.text, 10) for one in of_time]
    windows = [{"created_after": one.after, "created_before": one.before} for one in of_time]
    show("as they are", plain, plain)
    inside = [asking.recall(one.question, one.question.text, 10, **w) for one, w in zip(of_time, windows, strict=True)]
    show("in the window", inside, plain)
    rest = [asking.recall(one.question, one.rest, 10, **w) for one, w in zip(of_time, windows, strict=True)]
    show("in the window, without the date", rest, plain)
    print(f"\n| R@5 of {len(questions)} questions | mean | gain |\n|---|---|---|")
    alone = [asking.recall(one, one.text, 5) for one in questions]
    for count in range(neighbours + 1):
        show(f"with {count} on either side", [asking.recall(one, one.text, 5, count) for one in questions], alone)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True, metavar="SET.json.gz")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--neighbours", type=int, default=2, choices=range(MAX_NEIGHBOURS + 1), metavar="N")
    options = parser.parse_args()
    judged = load(options.set, None, SEED)
    dates = json.loads(gzip.decompress(options.set.read_bytes()))["doc_date"]
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    years = {scope: dates[names[0]][-4:] for scope, names in judged.scopes.items()}
    of_time = [one for question in judged.questions if (one := dated(question, years[question.scope]))]
    settings = Settings(max_response_tokens=1_000_000, sqlite_synchronous="NORMAL")
    with (
        TemporaryDirectory() as folder,
        SessionMemoryStore(Path(folder) / "m.db", settings, embedder=embedder) as store,
    ):
        asking = Asking(store, judged, dict(fill(store, judged, dates)))
        measure(asking, judged.questions, of_time, options.neighbours)


if __name__ == "__main__":
    main()
