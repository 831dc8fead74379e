"""Whether a fact is found at every position of a long report: by its name, and in other words.

uv run benchmarks/retrieval/planted.py FOLDER [--cache DIR]

All Markdown under the folder is cut into reports of 20,000 characters. Each fact of tests/data/planted_facts.json is
put into one of them, at its start, in its middle or at its end, and asked for. Prints hit@10 over chunks.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import CachedEmbedder

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

FACTS = Path(__file__).parents[2] / "tests" / "data" / "planted_facts.json"
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}
LENGTH = 20_000
DEPTH = 10

Fact = dict[str, str]
"""`fact`, and how it is asked for: `name`, `paraphrase`."""


def reports(folder: Path) -> Iterator[list[str]]:
    """Yield reports as lists of paragraphs."""
    report: list[str] = []
    for path in sorted(folder.rglob("*.md")):
        for paragraph in re.split(r"\n{2,}", path.read_text(encoding="utf-8")):
            report.append(paragraph)
            if sum(map(len, report)) >= LENGTH:
                yield report
                report = []


def plant(paragraphs: Sequence[str], fact: str, share: float) -> str:
    """Return the report with the fact as a paragraph at this share of its length."""
    lengths = list(accumulate(map(len, paragraphs), initial=0))
    at = min(range(len(lengths)), key=lambda index: abs(lengths[index] - share * lengths[-1]))
    return "\n\n".join([*paragraphs[:at], fact, *paragraphs[at:]])


def fill(store: SessionMemoryStore, texts: Sequence[Sequence[str]], facts: Sequence[Fact]) -> int:
    """Store for each place a session, with every report and its fact there; return how many chunks a session has."""
    chunks = 0
    for place, share in PLACES.items():
        for number, paragraphs in enumerate(texts):
            text = plant(paragraphs, facts[number]["fact"], share) if number < len(facts) else "\n\n".join(paragraphs)
            chunks += store.store_memory("report", text, session_id=place).chunks_created or 0
    return chunks // len(PLACES)


def hits(store: SessionMemoryStore, place: str, facts: Sequence[Fact], asked_by: str) -> float:
    """Return the share of the facts that are in one of the ten best chunks."""
    scope = Scope("report", session_id=place)
    found = [
        any(
            fact["fact"] in chunk.chunk_content
            for chunk in store.search_chunks(fact[asked_by], scope, Page(limit=DEPTH)).results
        )
        for fact in facts
    ]
    return sum(found) / len(found)


def measure(texts: Sequence[Sequence[str]], facts: Sequence[Fact], embedder: Embedder) -> None:
    """Store the reports and print a row for each search mode, and one for the default without late interaction."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with SessionMemoryStore(path, Settings(sqlite_synchronous="NORMAL"), embedder=embedder) as store:
            chunks = fill(store, texts, facts)
        print(f"{len(texts)} reports, {chunks:,} chunks, {len(facts)} facts at each place: by name / in other words")
        print(f"\n| search | {' | '.join(PLACES)} |\n{'|---' * (len(PLACES) + 1)}|")
        ways = {str(mode): Settings(search_mode=mode, max_response_tokens=1_000_000) for mode in SearchMode}
        ways["hybrid, without late interaction"] = Settings(late_interaction=False, max_response_tokens=1_000_000)
        for way, settings in ways.items():
            with SessionMemoryStore(path, settings, embedder=embedder) as store:
                cells = [
                    " / ".join(f"{hits(store, place, facts, asked_by):.3f}" for asked_by in ("name", "paraphrase"))
                    for place in PLACES
                ]
            print(f"| {way} | {' | '.join(cells)} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    facts: list[Fact] = json.loads(FACTS.read_text(encoding="utf-8"))
    texts = list(reports(options.folder))
    if len(texts) < len(facts):
        return print(f"{options.folder} holds {len(texts)} reports of {LENGTH:,} characters: {len(facts)} are needed.")
    embedder = load_embedder(Settings())
    measure(texts, facts, CachedEmbedder(embedder, options.cache) if options.cache else embedder)
    return None


if __name__ == "__main__":
    main()
