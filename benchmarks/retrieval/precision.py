"""Whether an answer holds what answers the question and nothing else, on sixty cases of our own, by half.

uv run benchmarks/retrieval/precision.py [--cache DIR] [--minutes N] [--json FILE] [--each]

209 short memories share one store, stored so many minutes apart (0). A question has one memory that answers it,
several, or none: its topic is there without the answer, or is not there at all. Prints the means of precision and
recall over the questions with an answer, how many of these got exactly what is right, how many of the others got
nothing, and the results of an answer. Results count as they come; where they say how well they match, also without
those that are not strong.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from cache import CachedEmbedder
from cases import HALVES, SORTS, Case, precision_cases
from rankings import FIRST

from vector_memory.domain import Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore


@dataclass(frozen=True, slots=True)
class Answered:
    """A case, and what came: names of memories with how well they match, best first."""

    case: Case
    found: Sequence[tuple[str, str | None]]
    confidence: str | None

    def named(self, *, strong: bool) -> set[str]:
        """Return the names that came; `strong`: only of results that say so."""
        return {name for name, match in self.found if not strong or match in (None, "strong")}

    def precision(self, *, strong: bool) -> float:
        """Return the share of what came that is right; 0 if nothing came."""
        named = self.named(strong=strong)
        return len(named & self.case.right) / len(named) if named else 0.0

    def recall(self, *, strong: bool) -> float:
        """Return the share of what is right that came."""
        return len(self.named(strong=strong) & self.case.right) / len(self.case.right)


def answers(
    memories: dict[str, str], cases: Sequence[Case], embedder: Embedder, apart: float = 0
) -> Iterator[Answered]:
    """Store the memories, and yield what a search with defaults returns for each case."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            names = {
                store.store_memory(
                    "working_memory",
                    text,
                    session_id=name,
                    created_at=(FIRST + number * timedelta(minutes=apart)).isoformat(),
                ).memory_id: name
                for number, (name, text) in enumerate(memories.items())
            }
            for case in cases:
                answer = store.search_chunks(case.question, Scope("working_memory"))
                found = [(names[result.memory_id], getattr(result, "match", None)) for result in answer.results]
                yield Answered(case, found, answer.confidence)


def rows(answered: Sequence[Answered], *, strong: bool) -> Iterator[str]:
    """Yield a row for each half."""
    for half in HALVES:
        own = [each for each in answered if each.case.half == half]
        wanted = [each for each in own if each.case.right]
        by_sort = {sort: [each for each in own if each.case.sort == sort] for sort in SORTS}
        cells = [f"{mean_of(wanted, lambda each: each.precision(strong=strong)):.2f}"]
        cells += [
            f"{mean_of(each, lambda one: one.recall(strong=strong)):.2f}"
            for each in (wanted, by_sort["single"], by_sort["compound"])
        ]
        cells.append(share(wanted, lambda each: each.named(strong=strong) == each.case.right))
        cells += [share(by_sort[sort], lambda each: not each.named(strong=strong)) for sort in ("absent", "off topic")]
        cells += [share(by_sort[sort], lambda each: is_doubtful(each.confidence)) for sort in ("absent", "off topic")]
        cells.append(share(wanted, lambda each: is_doubtful(each.confidence)))
        cells.append(f"{median(len(each.named(strong=strong)) for each in own):g}")
        yield f"| {half}{', strong alone' if strong else ''} | {' | '.join(cells)} |"


def mean_of(answered: Sequence[Answered], value: Callable[[Answered], float]) -> float:
    """Return the mean of a value of each answer."""
    return mean(map(value, answered)) if answered else 0.0


def share(answered: Sequence[Answered], holds: Callable[[Answered], bool]) -> str:
    """Return of how many answers something holds."""
    return f"{sum(map(holds, answered))} of {len(answered)}"


def is_doubtful(confidence: str | None) -> bool:
    """Tell whether an answer does not claim to answer."""
    return confidence not in ("high", "strong")


def as_data(answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """Return the answers for a JSON file."""
    return [
        {
            "half": each.case.half, "sort": each.case.sort, "question": each.case.question,
            "right": sorted(each.case.right), "found": list(each.found), "confidence": each.confidence,
        }
        for each in answered
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--minutes", type=float, default=0.0, metavar="N", help="between two memories")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every answer here")
    parser.add_argument("--each", action="store_true", help="print every question that is not answered exactly")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    answered = list(answers(*precision_cases(), embedder, options.minutes))
    print(
        "| | precision | recall | single | compound | exactly | absent: none | off topic: none "
        "| absent: doubtful | off topic: doubtful | right: doubtful | results, median |"
    )
    print("|---" * 12 + "|")
    says = any(match for each in answered for _, match in each.found)
    for strong in (False, True) if says else (False,):
        print(*rows(answered, strong=strong), sep="\n")
    if options.each:
        for each in answered:
            if each.named(strong=False) != each.case.right:
                print(f"\n{each.case.half}, {each.case.sort}: {each.case.question}")
                print(f"  wanted {sorted(each.case.right)}, {each.confidence}: {list(each.found)}")
    if options.json:
        options.json.write_text(json.dumps(as_data(answered), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
