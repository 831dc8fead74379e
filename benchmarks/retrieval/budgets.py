"""How many questions have their evidence inside an answer of 500, 2,000 and 8,000 tokens, on judged sets.

uv run benchmarks/retrieval/budgets.py --folder DIR [--queries N] [--cache DIR] SET.json.gz[=EVIDENCE.json.gz] ...

The documents of a set are stored as reports, its scopes as sessions, and a real server is asked for as much as fits.
Evidence are the right documents, of which a part has to be in the answer; or, where a second set has the same questions
about parts of the documents, such as the turns of conversations, the whole texts of its right documents. Prints for how
many questions one of them, and all of them, are in what the client's model reads; and, for an answer of ten results
with no budget given, its characters and how much of them are stored texts.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from agents import FORMS, TOOL, content_of, read_by_model, results_of
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from rankings import filled_as
from served import Server

from vector_memory.domain import MemoryKind
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

BUDGETS = (500, 2_000, 8_000)
MOST = 50
"""The results that are asked for: the budget is what ends the answer."""

SEED = 32


@dataclass(frozen=True, slots=True)
class Material:
    """A set, the file of its memory, the names of its documents by memory, and the texts that are evidence."""

    judged: JudgedSet
    path: Path
    names: dict[int, str]
    evidence: dict[tuple[str, str], list[str]] | None

    def inside(self, question: Question, found: Sequence[dict[str, Any]]) -> list[bool]:
        """Return of each piece of evidence whether it is in the answer."""
        if self.evidence is None:
            shown = {self.names[each["memory_id"]] for each in found if content_of(each)}
            return [name in shown for name in question.grades]
        text = plain("\n".join(map(content_of, found)))
        return [plain(each) in text for each in self.evidence[question.text, question.scope]]


def plain(text: str) -> str:
    """Return a text without differences in white space."""
    return " ".join(text.split())


def prepared(named: str, folder: Path, queries: int | None, embedder: Embedder) -> Material:
    """Read a set and store its documents, unless the folder has them."""
    first, _, second = named.partition("=")
    judged = load(Path(first), queries, SEED)
    evidence = None
    if second:
        parts = load(Path(second), None, SEED)
        evidence = {(each.text, each.scope): [parts.documents[one] for one in each.grades] for each in parts.questions}
    path = folder / f"{judged.name}.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        with SessionMemoryStore(unfinished, Settings(sqlite_synchronous="NORMAL"), embedder=embedder) as store:
            names = dict(filled_as(store, judged, MemoryKind.REPORT))
        path.with_suffix(".json").write_text(json.dumps(names), encoding="utf-8")
        unfinished.rename(path)
    stored = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return Material(judged, path, {int(number): name for number, name in stored.items()}, evidence)


def asked(material: Material, form: str, budget: int | None) -> Iterator[tuple[Question, dict[str, Any]]]:
    """Yield what a server answers to each question, within a budget or with its defaults."""
    with Server(material.path, form) as server:
        for question in material.judged.questions:
            scope = {"session_id": question.scope} if len(material.judged.scopes) > 1 else {}
            room = {} if budget is None else {"limit": MOST, "max_tokens": budget}
            yield question, server.call(TOOL, query=question.text, **scope, **room)


def shares(material: Material, form: str, budget: int) -> str:
    """Return the percentage of questions with any evidence, and with all of it, in the answer."""
    inside = [material.inside(question, results_of(answer)) for question, answer in asked(material, form, budget)]
    return " / ".join(f"{100 * sum(map(holds, inside)) / len(inside):.0f}" for holds in (any, all))


def content(material: Material, form: str) -> str:
    """Return the median characters of answers with defaults, and the share of all that are stored texts."""
    answers = [answer for _, answer in asked(material, form, None)]
    read = [len(read_by_model(answer)) for answer in answers]
    stored = [sum(len(content_of(each)) for each in results_of(answer)) for answer in answers]
    return f"{median(read):,.0f} | {100 * sum(stored) / sum(read):.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET.json.gz[=EVIDENCE.json.gz]")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="where memories are made and kept")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--queries", type=int, metavar="N", help="ask only N questions of each set, drawn at random")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    print(f"| set, profile | {' | '.join(f'{budget:,}' for budget in BUDGETS)} | characters, median | content, % |")
    print("|---" * (len(BUDGETS) + 3) + "|")
    for named in options.sets:
        material = prepared(named, options.folder, options.queries, embedder)
        for form in options.forms:
            cells = [shares(material, form, budget) for budget in BUDGETS]
            print(f"| {material.judged.name}, {form} | {' | '.join(cells)} | {content(material, form)} |", flush=True)


if __name__ == "__main__":
    main()
