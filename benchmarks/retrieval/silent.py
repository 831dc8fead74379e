"""Whether a memory answers what it knows and is silent where it knows nothing, although the topic is there.

uv run benchmarks/retrieval/silent.py [--cache DIR] [--few] [--each]

Each half of questions/silent.json is a memory; "all" holds both, and the 209 memories of precision.json. With --few,
each question is asked in a memory of five texts instead: those that it is about, and others of its half. Prints of the
questions with an answer how many give it, give it first, and claim it (strong); and of those without one, by sort, how
many get nothing, and how many claim nothing.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cache import CachedEmbedder
from cases import QUESTIONS, precision_cases

from vector_memory.domain import Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

HALVES = ("find", "judge")
FEW, SEED = 5, 62


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, and what came: names of memories with how well they match, best first."""

    question: Mapping[str, Any]
    found: Sequence[tuple[str, str | None]]

    @property
    def names(self) -> list[str]:
        """Return the names that came."""
        return [name for name, _ in self.found]

    @property
    def gives(self) -> bool:
        """Whether the answer is there."""
        return self.question["answer"] in self.names

    @property
    def leads(self) -> bool:
        """Whether it is first."""
        return self.names[:1] == [self.question["answer"]]

    @property
    def claims(self) -> bool:
        """Whether anything is said to answer: the answer, where there is one."""
        wanted = self.question["answer"]
        return any(match == "strong" and wanted in (None, name) for name, match in self.found)


def ask(memories: Mapping[str, str], questions: Sequence[Mapping[str, Any]], embedder: Embedder) -> Iterator[Answered]:
    """Store the memories, and yield what a search with defaults returns for each question."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            receipts = {
                store.store_memory("working_memory", text, session_id=name).memory_id: name
                for name, text in memories.items()
            }
            for question in questions:
                answer = store.search_chunks(question["question"], Scope("working_memory"))
                yield Answered(question, [(receipts[one.memory_id], one.match) for one in answer.results])


def few(memories: Mapping[str, str], question: Mapping[str, Any]) -> dict[str, str]:
    """Return a memory of five texts: those that the question is about, and others."""
    about = [name for name in (question["answer"], *question.get("near", ())) if name]
    drawn = random.Random(f"{SEED} {question['question']}")  # noqa: S311 - not a secret
    others = drawn.sample([name for name in memories if name not in about], max(0, FEW - len(about)))
    return {name: memories[name] for name in sorted([*about, *others])}


def row(name: str, answered: Sequence[Answered]) -> str:
    """Return a row of the table."""
    there = [each for each in answered if each.question["answer"]]
    cells = [
        count(there, holds) for holds in (lambda each: each.gives, lambda each: each.leads, lambda each: each.claims)
    ]
    for sorts in (("word", "topic"), ("word",), ("topic",)):
        absent = [each for each in answered if not each.question["answer"] and each.question["sort"] in sorts]
        cells += [count(absent, lambda each: not each.found), count(absent, lambda each: not each.claims)]
    return f"| {name} | {' | '.join(cells)} |"


def count(answered: Sequence[Answered], holds: Callable[[Answered], bool]) -> str:
    """Return of how many answers something holds."""
    return f"{sum(map(holds, answered))} of {len(answered)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--few", action="store_true", help="ask each question in a memory of five texts, too")
    parser.add_argument("--each", action="store_true", help="print every question that is not answered right")
    options = parser.parse_args()
    embedder: Embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    data = json.loads((QUESTIONS / "silent.json").read_text(encoding="utf-8"))
    everything = {**data["memories"]["find"], **data["memories"]["judge"], **precision_cases()[0]}
    print(
        "| | given | first | claimed | absent: silent | unclaimed "
        "| word: silent | unclaimed | topic: silent | unclaimed |"
    )
    print("|---" * 10 + "|")
    for half in HALVES:
        memories, asked = data["memories"][half], [one for one in data["questions"] if one["half"] == half]
        runs = {half: list(ask(memories, asked, embedder)), f"{half}, all": list(ask(everything, asked, embedder))}
        if options.few:
            runs[f"{half}, five"] = [next(ask(few(memories, one), [one], embedder)) for one in asked]
        for name, answered in runs.items():
            print(row(name, answered), flush=True)
            for each in answered if options.each else ():
                wanted = each.question["answer"]
                if not each.gives if wanted else each.found:
                    print(f"    {each.question['question']} -> {wanted}: {each.found[:3]}")


if __name__ == "__main__":
    main()
