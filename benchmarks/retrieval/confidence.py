"""How often right answers are called doubtful, and answers to off-topic questions are not, through the real store.

uv run benchmarks/retrieval/confidence.py [--set SET.json.gz ...] [--folder QUESTIONS=FOLDER ...] [--cache DIR]

Asks the questions of benchmarks/retrieval/questions/docs.json about this project's docs, and those of each judged set
about its documents (at most 1,000 of them). `--folder rust_book=DIR` adds a folder of Markdown with the questions of
questions/rust_book.json. Prints the share of questions flagged low: of answerable ones; of off-topic ones, which are
everyday questions and those of the other sets; and of questions about things that the documents do not mention. Scopes
are all documents of a set, and 1 or 5 of them.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import CachedEmbedder
from judged import load

from vector_memory.domain import Page, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

QUESTIONS = Path(__file__).parent / "questions"
DOCS = Path(__file__).parents[2] / "docs"
SIZES = (1, 5)
PARTS = 5
"""So many parts of each size are asked the questions that they cannot answer."""

MOST_QUESTIONS = 60
MOST_DOCUMENTS = 1_000
SEED = 20


@dataclass(frozen=True, slots=True)
class Material:
    """Documents by name, questions with the name of a document that answers them, and questions without an answer."""

    name: str
    documents: dict[str, str]
    answerable: Sequence[tuple[str, str]]
    absent: Sequence[str] = ()


def from_folder(questions: str, folder: Path) -> Material:
    """Return the Markdown under a folder with its questions."""
    data = json.loads((QUESTIONS / f"{questions}.json").read_text(encoding="utf-8"))
    documents = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.md"))}
    answerable = [(text, name) for text, name in data["answerable"] if name in documents]
    return Material(questions, documents, answerable, data["absent"])


def from_notes() -> Material:
    """Return the notes, one sentence each."""
    notes = json.loads((QUESTIONS / "notes.json").read_text(encoding="utf-8"))["notes"]
    return Material("notes", {text: text for text, _ in notes}, [(question, text) for text, question in notes])


def from_set(path: Path) -> Material:
    """Return the whole of a judged set, or a part of it that has the answers."""
    judged = load(path, MOST_QUESTIONS, SEED)
    answers = [(question.text, next(iter(question.grades))) for question in judged.questions]
    answers = [(text, name) for text, name in answers if name in judged.documents]
    wanted = {name for _, name in answers}
    kept = dict.fromkeys([*wanted, *judged.documents][: max(MOST_DOCUMENTS, len(wanted))])
    return Material(judged.name, {name: judged.documents[name] for name in kept}, answers)


class Asked:
    """A store that holds one set as a session, and parts of it as others."""

    def __init__(self, store: SessionMemoryStore, material: Material) -> None:
        self._store = store
        self._material = material
        self._random = random.Random(SEED)  # noqa: S311 - not a secret
        self._parts: dict[tuple[str, ...], str] = {}
        self._whole = self._session(list(material.documents))

    def flagged(self, question: str, names: Sequence[str] | None = None) -> bool:
        """Tell whether the answer to a question has low confidence, over all documents or some."""
        session = self._whole if names is None else self._session(names)
        answer = self._store.search_chunks(question, Scope("report", session_id=session), Page(limit=5))
        return answer.confidence == "low"

    def some(self, count: int, answer: str | None = None) -> list[str]:
        """Return the names of so many documents, the one with the answer among them."""
        others = [name for name in self._material.documents if name != answer]
        # Always the same for an answer, or one of a few parts: storing takes most of the time.
        drawn = random.Random(answer or str(self._random.randrange(PARTS)))  # noqa: S311 - not a secret
        chosen = drawn.sample(others, min(len(others), count - (answer is not None)))
        return chosen if answer is None else [answer, *chosen]

    def _session(self, names: Sequence[str]) -> str:
        known = self._parts.get(tuple(names))
        if known is not None:
            return known
        session = self._parts[tuple(names)] = f"part {len(self._parts)}"
        for name in names:
            self._store.store_memory("report", self._material.documents[name], session_id=session, title=name[:50])
        return session


def rates(material: Material, everyday: Sequence[str], others: Sequence[str], embedder: Embedder) -> Iterator[str]:
    """Yield the cells of a row: for each group of questions the flagged percentages, by the size of the scope."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            asked = Asked(store, material)
            yield percentages(
                [asked.flagged(question) for question, _ in material.answerable],
                *(
                    [asked.flagged(text, asked.some(size, name)) for text, name in material.answerable]
                    for size in SIZES
                ),
            )
            for off_topic in (everyday, others):
                yield percentages(
                    [asked.flagged(question) for question in off_topic],
                    *([asked.flagged(text, asked.some(size)) for text in off_topic] for size in SIZES),
                )
            yield percentages([asked.flagged(question) for question in material.absent])


def percentages(*flagged: Sequence[bool]) -> str:
    """Return the share of each list in percent."""
    return " / ".join(f"{100 * sum(each) / len(each):.0f}" if each else "-" for each in flagged)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="sets", action="append", type=Path, default=[], metavar="SET.json.gz")
    parser.add_argument("--folder", action="append", default=[], metavar="QUESTIONS=FOLDER")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    folders = [named.split("=", 1) for named in options.folder]
    materials = [
        from_folder("docs", DOCS),
        from_notes(),
        *(from_folder(name, Path(folder)) for name, folder in folders),
        *map(from_set, options.sets),
    ]
    everyday = json.loads((QUESTIONS / "off_topic.json").read_text(encoding="utf-8"))
    print("Percent flagged low; scope: all / 1 / 5 documents\n")
    print("| set | answerable | everyday | other sets | not mentioned |\n|---|---|---|---|---|")
    for material in materials:
        others = [text for other in materials if other is not material for text, _ in other.answerable]
        some = random.Random(SEED).sample(others, min(len(others), MOST_QUESTIONS))  # noqa: S311 - not a secret
        print(f"| {material.name} | {' | '.join(rates(material, everyday, some, embedder))} |", flush=True)


if __name__ == "__main__":
    main()
