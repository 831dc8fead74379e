"""Whether an answer that holds an obsolete fact holds its correction, on sixty pairs of our own, by set.

uv run benchmarks/retrieval/corrected.py [--cache DIR] [--json FILE] [--each]

A memory of each half: 20 facts, their corrections stored weeks later in other words, 20 decoys on a near subject that
are newer than the fact, too, and 32 other findings. A question repeats the words of the fact. Prints in how many
answers the fact and the correction are, how often the correction is first or before the fact, how many facts name the
correction, the decoy or other findings as `later`, and the results of an answer; once more with prefer="latest".
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from cache import CachedEmbedder
from cases import HALVES, Correction, corrections, states

from vector_memory.domain import LATEST, Page, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SEED = 32
FIRST = date(2026, 2, 2)
LATER = 60
"""So many days after the facts, their corrections begin; the decoys are between them."""

DEFAULT = Page()

AGENTS = ("backend-dev", "reviewer", "ops", "analyst")


@dataclass(frozen=True, slots=True)
class Answered:
    """A pair, the texts of the answer in their order, and the later ones that they name."""

    pair: Correction
    found: Sequence[str]
    later: Mapping[str, Sequence[str]]

    @property
    def corrects(self) -> bool:
        """Whether the correction is in the answer."""
        return self.pair.correction in self.found

    @property
    def marks(self) -> bool:
        """Whether the fact is in the answer and names the correction."""
        return self.pair.correction in self.later.get(self.pair.fact, ())

    @property
    def leads(self) -> bool:
        """Whether the correction is in the answer and comes before the fact, or without it."""
        before = self.found[: self.found.index(self.pair.fact)] if self.pair.fact in self.found else self.found
        return self.pair.correction in before


def dated(pairs: Sequence[Correction], others: Sequence[str]) -> list[tuple[str, date]]:
    """Return the texts of a memory with the days on which they were stored."""
    drawn = random.Random(SEED)  # noqa: S311 - not a secret
    found = []
    for number, pair in enumerate(pairs):
        day = FIRST + timedelta(days=number)
        found += [(pair.fact, day), (pair.decoy, day + timedelta(days=LATER // 2))]
        found.append((pair.correction, day + timedelta(days=LATER + number % 7)))
    found += [(text, FIRST + timedelta(days=drawn.randrange(LATER + len(pairs)))) for text in others]
    return sorted(found, key=lambda each: each[1])


def fill(store: SessionMemoryStore, texts: Sequence[tuple[str, date]]) -> dict[int, str]:
    """Store the texts as findings of several agents; return them by the ids of their memories."""
    ids = {}
    for number, (text, day) in enumerate(texts):
        receipt = store.store_memory(
            "working_memory", text, session_id=f"session {day.isocalendar().week}",
            agent_id=AGENTS[number % len(AGENTS)], created_at=f"{day}T{9 + number % 9:02}:00:00Z",
        )  # fmt: skip
        ids[receipt.memory_id] = text
    return ids


def answers(
    pairs: Sequence[Correction], others: Sequence[str], embedder: Embedder, page: Page = DEFAULT
) -> Iterator[Answered]:
    """Yield what a search returns for each question of a set."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            ids = fill(store, dated(pairs, others))
            for pair in pairs:
                results = store.search_chunks(pair.question, Scope("working_memory"), page).results
                later = {ids[each.memory_id]: [ids[one.id] for one in each.later] for each in results}
                yield Answered(pair, [ids[each.memory_id] for each in results], later)


def row(half: str, answered: Sequence[Answered]) -> str:
    """Return the row of a half."""
    cells = [
        count(answered, lambda each: each.pair.fact in each.found),
        count(answered, lambda each: each.corrects),
        count(answered, lambda each: bool(each.found) and each.found[0] == each.pair.correction),
        count(answered, lambda each: each.leads),
        count(answered, lambda each: each.marks),
        count(answered, lambda each: each.pair.decoy in each.later.get(each.pair.fact, ())),
        str(sum(len({*chain(*each.later.values())} - {each.pair.correction, each.pair.decoy}) for each in answered)),
        f"{median(len(each.found) for each in answered):g}",
    ]
    return f"| {half} | {' | '.join(cells)} |"


def count(answered: Sequence[Answered], holds: Callable[[Answered], bool]) -> str:
    """Return of how many answers something holds."""
    return f"{sum(map(holds, answered))} of {len(answered)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every answer here")
    parser.add_argument("--each", action="store_true", help="print every question whose correction is not named")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    pairs, others = corrections()
    print(
        "| | fact | correction | it is first | before the fact | named | decoy named | others named | results, median |"
    )
    print("|---" * 9 + "|")
    every = []
    for name in (*HALVES, "state"):
        chosen = [pair for pair in (*pairs, *states()) if pair.half == name]
        for page in (DEFAULT, Page(prefer=LATEST)):
            answered = list(answers(chosen, others, embedder, page))
            print(row(f"{name}, {page.prefer}" if page.prefer else name, answered), flush=True)
            every += answered
    if options.each:
        for each in every:
            if not each.marks:
                print(f"\n{each.pair.half}: {each.pair.question}\n  {each.pair.correction}")
                print(*(f"    {text}" for text in each.found), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in every], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
