"""Asks the questions of a set of conversations through the real store, and counts what is found, by type of question.

Every conversation is a session. Its parts are stored as they were said, in their order.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, Question
from rankings import SearchModeRanking, filled, opened
from scoring import score

from vector_memory.domain import SearchMode
from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings

COUNTED = 5
METRICS = ("any@5", "all@5", "nDCG@10")

Types = Mapping[str, str]
"""The type of each question, by its text and scope: `type_key`."""

Read = Callable[[Path], tuple[JudgedSet, Types]]


def type_key(question: Question) -> str:
    """Return the key of a question in `Types`: the same question may be asked in several conversations."""
    return f"{question.scope}\n{question.text}"


def measured(judged: JudgedSet, cache: Path | None) -> list[tuple[float, float, float]]:
    """Store the set, ask all questions, and return the metrics of each.

    any@5: one of the right parts is among the first five. all@5: all of them are, or five if there are more.
    """
    embedder = load_embedder(Settings())
    if cache is not None:
        embedder = CachedEmbedder(embedder, cache)
    with TemporaryDirectory() as folder, opened(Path(folder) / "memory.db", SearchMode.HYBRID, embedder) as store:
        documents = dict(filled(store, judged))
        ranking = SearchModeRanking(store, judged, documents)
        return [metrics(ranking.rank(question), question.grades) for question in judged.questions]


def metrics(found: Sequence[str], grades: Mapping[str, float]) -> tuple[float, float, float]:
    """Return any@5, all@5 and nDCG@10 of one ranking."""
    right = len(set(found[:COUNTED]) & set(grades))
    return float(right > 0), float(right >= min(len(grades), COUNTED)), score(found, grades)[0]


def main(description: str | None, read: Read) -> None:
    """Read a file, measure and print a table: a row for each type of question, and one for all."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--questions", type=int, metavar="N", help="ask only the first N questions")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the values of every question here")
    options = parser.parse_args()
    judged, types = read(options.file)
    if options.questions:
        questions = list(judged.questions)[: options.questions]
        asked = {question.scope for question in questions}
        scopes = {scope: names for scope, names in judged.scopes.items() if scope in asked}
        judged = JudgedSet(judged.name, judged.documents, scopes, questions)
    values = np.array(measured(judged, options.cache))
    kinds = np.array([types[type_key(question)] for question in judged.questions])
    print(f"| questions | number | {' | '.join(METRICS)} |\n|---|---|{'---|' * len(METRICS)}")
    for kind in sorted(set(kinds.tolist())):
        print(row(kind, values[kinds == kind]))
    print(row("**all**", values))
    if options.json:
        asked_texts = [question.text for question in judged.questions]
        options.json.write_text(json.dumps({"metrics": METRICS, "questions": asked_texts, "values": values.tolist()}))


def row(name: str, values: "np.typing.NDArray[np.float64]") -> str:
    """Return a line of the table."""
    return f"| {name} | {len(values)} | {' | '.join(f'{mean:.3f}' for mean in values.mean(axis=0))} |"
