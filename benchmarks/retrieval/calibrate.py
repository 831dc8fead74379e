"""From which evidence on a text is called a strong match: how often it is right, and how often another one is.

uv run benchmarks/retrieval/calibrate.py [--model NAME] [--set SET.json.gz ...] [--cache DIR]

Asks the questions of benchmarks/retrieval/questions and of judged sets, and looks at the best hit: at its evidence (see
`embedding.description`), with the share of its late score that the model has. A question without an answer has none
that is right, and so has one of a judged set whose answers are left out. Prints for each threshold the percentage of
right and of wrong best hits that reach it, and the thresholds' balance over all sets.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import CachedEmbedder
from cases import QUESTIONS, precision_cases
from judged import load

from vector_memory.domain import MemoryKind, Scope
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.embedding.description import INSTEAD_OF_TOKENS
from vector_memory.search.judge import CANDIDATES
from vector_memory.search.rank import Hit
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

THRESHOLDS = (0.44, 0.48, 0.5, 0.52, 0.54, 0.56, 0.58, 0.62)
DOCS = Path(__file__).parents[2] / "docs"
MOST_QUESTIONS, MOST_DOCUMENTS, SEED = 200, 1_000, 32


@dataclass(frozen=True, slots=True)
class Material:
    """Texts by name, and questions with the names of the texts that answer them, perhaps none."""

    name: str
    texts: dict[str, str]
    questions: Sequence[tuple[str, frozenset[str]]]


def own() -> Iterator[Material]:
    """Yield the material of this repository."""
    off_topic = [(text, frozenset[str]()) for text in json.loads((QUESTIONS / "off_topic.json").read_text("utf-8"))]
    memories, cases = precision_cases()
    yield Material("precision", memories, [(case.question, case.right) for case in cases])
    notes = json.loads((QUESTIONS / "notes.json").read_text("utf-8"))["notes"]
    asked = [(question, frozenset({text})) for text, question in notes]
    yield Material("notes", {text: text for text, _ in notes}, [*asked, *off_topic])
    docs = json.loads((QUESTIONS / "docs.json").read_text("utf-8"))
    asked = [(text, frozenset({name})) for text, name in docs["answerable"] if (DOCS / name).exists()]
    absent = [(text, frozenset[str]()) for text in docs["absent"]]
    pages = {path.relative_to(DOCS).as_posix(): path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))}
    yield Material("docs", pages, [*asked, *absent, *off_topic])


def judged(path: Path) -> Material:
    """Return a judged set, or a part of it that has the answers."""
    found = load(path, MOST_QUESTIONS, SEED)
    asked = [(question.text, frozenset(question.grades)) for question in found.questions]
    names = dict.fromkeys([name for _, right in asked for name in right] + list(found.documents))
    return Material(found.name, {name: found.documents[name] for name in list(names)[:MOST_DOCUMENTS]}, asked)


def best_hits(material: Material, embedder: Embedder, late: float) -> Iterator[tuple[float, bool]]:
    """Yield the evidence of the best right and of the best wrong hit of each question, and which of both it is."""
    with TemporaryDirectory() as folder:
        settings = Settings(sqlite_synchronous="NORMAL")
        with SessionMemoryStore(Path(folder) / "memory.db", settings, embedder=embedder) as store:
            names = {
                store.store_memory("report", text, session_id=str(number)).memory_id: name
                for number, (name, text) in enumerate(material.texts.items())
            }
            retriever, scope = store._fine._retriever, Scope(MemoryKind.REPORT)  # noqa: SLF001 - hits have no public form
            for text, right in material.questions:
                with retriever.answering(retriever.prepare(text), scope) as retrieval:
                    hits = retrieval.find(scope, CANDIDATES).hits
                for wanted in (True, False):
                    first = next((hit for hit in hits if (names[hit.memory_id] in right) is wanted), None)
                    if first is not None:
                        yield evidence(first, late), wanted


def evidence(hit: Hit, late: float) -> float:
    """Return the evidence of a hit without its words."""
    cosine = hit.similarity or 0.0
    return (1 - late) * cosine + late * (cosine + INSTEAD_OF_TOKENS if hit.late is None else hit.late)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--set", dest="sets", action="append", type=Path, default=[], metavar="SET.json.gz")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    late = embedder.calibration_for("which index is unused").late
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    print(f"| right / wrong, % | {' | '.join(f'{each:g}' for each in THRESHOLDS)} |")
    print("|---" * (len(THRESHOLDS) + 1) + "|")
    for material in [*own(), *map(judged, options.sets)]:
        found = list(best_hits(material, embedder, late))
        cells = []
        for threshold in THRESHOLDS:
            right, wrong = (
                [value >= threshold for value, is_right in found if is_right is wanted] for wanted in (True, False)
            )
            cells.append(" / ".join(f"{100 * sum(each) / len(each):.0f}" if each else "-" for each in (right, wrong)))
        print(f"| {material.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
