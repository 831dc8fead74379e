"""Which memories are about one thing: whether the newer is named as later, and leads, on pairs of our own, by category.

uv run benchmarks/retrieval/subjects.py [--half find|judge] [--cache DIR] [--each]

A memory holds the pairs of a half of questions/subjects.json, the newer texts a month after the older ones. Each
question asks what the older text answers, and what the newer answers today only where it "replaces" the older. Prints
of each category how often the newer is named with the older, and how often it comes before the older, by default and
with prefer="latest".
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import CachedEmbedder
from cases import QUESTIONS
from rankings import FIRST

from vector_memory.domain import LATEST, Page, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

PAGES = {"leads": Page(), "leads, latest": Page(prefer=LATEST)}
MONTH = timedelta(days=30)

Pair = Mapping[str, str]


def fill(store: SessionMemoryStore, pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    """Store the pairs, all older texts first; return their ids."""
    ids = [
        store.store_memory(
            "working_memory", pair[age], session_id=f"{age} {number}", agent_id=age,
            created_at=(FIRST + later + number * timedelta(minutes=5)).isoformat(),
        ).memory_id or 0
        for age, later in (("older", timedelta()), ("newer", MONTH))
        for number, pair in enumerate(pairs)
    ]  # fmt: skip
    return list(zip(ids[: len(pairs)], ids[len(pairs) :], strict=True))


def measure(pairs: Sequence[Pair], embedder: Embedder, *, each: bool) -> Counter[tuple[str, str]]:
    """Return how often what happened, by category and relation."""
    counts = Counter[tuple[str, str]]()
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            for pair, (older, newer) in zip(pairs, fill(store, pairs), strict=True):
                name = f"{pair['category']}, {pair['relation']}"
                happened = ["pairs"]
                for what, page in PAGES.items():
                    results = store.search_chunks(pair["question"], Scope("working_memory"), page).results
                    found = [result.memory_id for result in results]
                    happened += [what] if newer in found[: found.index(older) if older in found else 0] else []
                    if page.prefer is None and any(
                        newer in {one.id for one in result.later} for result in results if result.memory_id == older
                    ):
                        happened.append("named")
                counts.update((name, what) for what in happened)
                if each and ("leads" in happened) is not (pair["relation"] == "replaces"):
                    print(f"{name}: {pair['question']}\n    {pair['older']!r}\n    {pair['newer']!r}")
    return counts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("find", "judge"), default="judge")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument(
        "--each", action="store_true", help="print every pair whose newer text leads wrongly, or does not"
    )
    options = parser.parse_args()
    embedder: Embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    pairs = json.loads((QUESTIONS / "subjects.json").read_text(encoding="utf-8"))["pairs"]
    counts = measure([pair for pair in pairs if pair["half"] == options.half], embedder, each=options.each)
    columns = ("pairs", "named", *PAGES)
    print(f"| {options.half} | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|")
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"| {name} | {' | '.join(str(counts[name, what]) for what in columns)} |")


if __name__ == "__main__":
    main()
