"""Which later memories a result names: corrections found, and others named by mistake, on sets of our own, by half.

uv run benchmarks/retrieval/succession.py [--model NAME] [--set longmemeval.json.gz] [--cache DIR] [--each]

A memory of each half: reports, their corrections stored later in other words, of fifteen kinds, a decoy on a near
subject between them, and findings on other subjects; the same without the corrections; and 200 reports on the progress
of eight tasks, and of four. Prints the percentage of corrected reports that name their correction, and their decoy, and
of all memories that name something on another subject, with 95 % intervals (Wilson). Of a judged set of conversations,
those sessions are looked at that answer a question together.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cache import CachedEmbedder
from cases import HALVES, QUESTIONS, corrections
from judged import load

from vector_memory.domain import Page, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SEED = 37
START = datetime(2026, 2, 2, 9, tzinfo=UTC)
REPORTS = 200
PEOPLE = ("Ines", "Tomasz", "Priya", "Jonas", "Mehmet")


@dataclass(frozen=True, slots=True)
class Succession:
    """A report, its correction, and a text on a near subject."""

    older: str
    newer: str
    near: str


def sets() -> Mapping[str, Any]:
    """Return the sets of this program."""
    return dict(json.loads((QUESTIONS / "later.json").read_text(encoding="utf-8")))


def half_of(half: str) -> tuple[list[Succession], list[str]]:
    """Return the successions and the findings of a half."""
    own, (known, findings) = sets(), corrections()
    found = [Succession(each.fact, each.correction, each.decoy) for each in known if each.half == half]
    found += [Succession(each["older"], each["newer"], each["near"]) for each in own[half]]
    others = [*own["others"], *findings]
    return found, others[HALVES.index(half) :: 2]


def in_order(successions: Sequence[Succession], others: Sequence[str], *, corrected: bool) -> list[str]:
    """Return texts as they are stored: the decoys after most of the older reports, and then the corrections."""
    drawn = random.Random(SEED)  # noqa: S311 - not a secret
    texts = [(drawn.random(), text) for text in others]
    for each in successions:
        texts += [(0.4 * drawn.random(), each.older), (0.45 + 0.2 * drawn.random(), each.near)]
        texts += [(0.7 + 0.3 * drawn.random(), each.newer)] if corrected else []
    return [text for _, text in sorted(texts)]


def progress(count: int) -> list[str]:
    """Return reports on the progress of so many tasks, one of each a day."""
    parts, drawn = sets()["progress"], random.Random(SEED)  # noqa: S311
    tasks = list(parts["tasks"].items())[:count]
    return [_report(parts, name, steps, day, drawn) for day in range(1, 1 + REPORTS // count) for name, steps in tasks]


def _report(parts: Mapping[str, Any], task: str, steps: Sequence[str], day: int, drawn: random.Random) -> str:
    a, b, c, d = drawn.sample(steps, 4)
    said = [drawn.choice(parts["openings"]), *drawn.sample(parts["middles"], drawn.choice([1, 1, 2]))]
    return " ".join(filter(None, [*said, drawn.choice(parts["ends"])])).format(
        t=task, a=a, b=b, c=c, d=d, A=a.capitalize(), C=c.capitalize(), n=day, p=drawn.choice(PEOPLE),
        m=drawn.randrange(20, 900), k=drawn.randrange(2, 15),
    )  # fmt: skip


def named(texts: Sequence[str], embedder: Embedder) -> dict[str, list[str]]:
    """Return which later texts each text names as a result, when all are stored an hour apart."""
    settings = Settings(sqlite_synchronous="NORMAL", max_response_tokens=1_000_000)
    with (
        TemporaryDirectory() as folder,
        SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store,
    ):
        ids = {}
        for hour, text in enumerate(texts):
            at = (START + timedelta(hours=hour)).isoformat()
            ids[store.store_memory("report", text, session_id="s", created_at=at).memory_id] = text
        found: dict[str, list[str]] = {}
        for offset in range(0, len(texts), 100):
            page = Page(limit=100, offset=offset)
            for hit in store.search_documents(None, Scope("report", session_id="s"), page).results:
                found[ids[hit.id]] = [ids[one.id] for one in hit.later]
    return found


def rows(embedder: Embedder, *, each: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the table."""
    for half in HALVES:
        successions, others = half_of(half)
        found = named(in_order(successions, others, corrected=True), embedder)
        alone = named(in_order(successions, others, corrected=False), embedder)
        subject = {text: number for number, one in enumerate(successions) for text in (one.older, one.newer, one.near)}
        wrong = {
            text: [one for one in later if subject.get(one) is None or subject[one] != subject.get(text)]
            for text, later in found.items()
        }
        yield (
            half,
            [
                share([one.newer in found[one.older] for one in successions]),
                share([one.near in found[one.older] for one in successions]),
                share([one.near in alone[one.older] for one in successions]),
                share([bool(later) for later in wrong.values()]),
            ],
        )
        if each:
            missed = (f"missed: {one.older} | {one.newer}" for one in successions if one.newer not in found[one.older])
            print(*missed, *(f"wrong: {text} | {later}" for text, later in wrong.items() if later), sep="\n")


def conversations(path: Path, embedder: Embedder) -> Iterator[str]:
    """Yield for questions that two conversations answer whether the first names the second, among all of its scope."""
    found = load(path, None, SEED)
    for question in found.questions:
        texts = [found.documents[name] for name in found.scopes[question.scope]]
        right = [found.documents[name] for name in found.scopes[question.scope] if name in question.grades]
        if len(right) == len(("first", "second")):
            later = named(texts, embedder)
            answer = "named" if right[1] in later[right[0]] else "not named"
            yield f"{question.text} {answer}; any is named by {share([bool(each) for each in later.values()])}"


def share(holds: Sequence[bool]) -> str:
    """Return a percentage with its 95 % interval."""
    count, part, z = len(holds), sum(holds) / len(holds), 1.96
    middle, spread = part + z**2 / (2 * count), z * sqrt(part * (1 - part) / count + z**2 / (4 * count**2))
    low, high = ((middle + sign * spread) / (1 + z**2 / count) for sign in (-1, 1))
    return f"{100 * part:.0f} ({100 * max(0.0, low):.0f}-{100 * high:.0f}) of {count}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--set", type=Path, metavar="FILE", help="conversations, such as longmemeval_s72")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--each", action="store_true", help="print what was missed, and what was named by mistake")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    embedder = CachedEmbedder(embedder, options.cache) if options.cache else embedder
    print("| | correction | decoy, beside it | decoy, alone | another subject |")
    print("|---" * 5 + "|")
    for half, cells in rows(embedder, each=options.each):
        print(f"| {half} | {' | '.join(cells)} |", flush=True)
    for count in (8, 4):
        found = named(progress(count), embedder)
        print(f"progress of {count} tasks: {share([bool(later) for later in found.values()])} name a later one")
    for line in conversations(options.set, embedder) if options.set else ():
        print(line, flush=True)


if __name__ == "__main__":
    main()
