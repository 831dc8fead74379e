"""Asks the questions of a set in every way, and counts what is found."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np
from baselines import OriginalDesign, Vectors, Words
from judged import WHOLE, JudgedSet, Question
from rankings import SearchModeRanking, filled, opened
from scoring import Scores, interval, score
from served import server_on

from vector_memory.domain import MemoryKind, SearchMode
from vector_memory.embedding import Embedder
from vector_memory.search import judge
from vector_memory.texts.tokens import find_token_counter, has_cl100k

METRICS = ("nDCG@10", "recall@5", "recall@10", "MRR@10", "any@5", "all@5")
"""any: one of the right documents is among the first five; all: all of them are, or five if there are more."""

DEFAULT, NO_LATE = "default", "default without late interaction"
NO_GATE, ALL_SHOWN = "default without the gate", "default, nothing left out"
MEANING, WORDS = "by meaning only", "by words only"
ORIGINAL, WHOLE_TEXTS, BM25 = "original design", "one vector for each text", "BM25"
COMPARED = (DEFAULT, ORIGINAL, WHOLE_TEXTS, BM25)
"""The ways whose places are written down for every question."""

COUNTED = 5
SEED = 20
CHARACTERS_PER_TOKEN = 4.66
STORED = 20
"""Documents whose storing is timed, drawn at random where a set has more."""

SERVED = 100
"""Questions that the server is asked, drawn at random where a set has more."""

BUDGETS = (500, 2_000, 8_000)
MOST = 50
"""The results that are asked for within a budget, which is what ends the answer."""

TOOLS = {
    MemoryKind.REPORT: "search_reports_specific_chunks",
    MemoryKind.WORKING_MEMORY: "search_working_memory_specific_chunks",
}

Figures = dict[str, Any]


class Ranking(Protocol):
    """A way to answer questions."""

    def rank(self, question: Question) -> list[str]:
        """Return the ids of the ten best documents of the question's scope, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Patched:
    """The default search with another function in the place of one of `judge`'s."""

    ranking: Ranking
    name: str
    function: Callable[..., Any]

    def rank(self, question: Question) -> list[str]:
        """Return what is found with the other function."""
        with patch.object(judge, self.name, self.function):
            return self.ranking.rank(question)


def measure(judged: JudgedSet, embedder: Embedder, cached: Embedder) -> Figures:
    """Store a set, ask all questions in every way, and return the figures. `cached` may know vectors of other runs."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with opened(path, SearchMode.HYBRID, cached) as store:
            documents = dict(filled(store, judged))
        with ways(path, judged, cached, documents) as rankings:
            asked = {name: ask(way, judged.questions) for name, way in rankings.items()}
        values = {
            name: np.array([metrics(found, each.grades) for found, each in zip(lists, judged.questions, strict=True)])
            for name, (lists, _) in asked.items()
        }
        return {
            "documents": len(judged.documents),
            "scopes": len(judged.scopes),
            "stored as": str(judged.kind),
            "file, MB": round(path.stat().st_size / 2**20, 1),
            "storing 1,000 characters, processor ms": round(storing(judged, embedder), 1),
            "ways": {
                name: {**summary(each, values[DEFAULT]), "empty": asked[name][0].count([])}
                for name, each in values.items()
            },
            "a search, processor ms": {
                name: round(median(times), 1) for name, (_, times) in asked.items() if name not in COMPARED[1:]
            },
            "kinds": by_kind(judged.questions, values),
            "served": served(path, judged, documents),
            "questions": places(judged.questions, {name: asked[name][0] for name in COMPARED}),
        }


def storing(judged: JudgedSet, embedder: Embedder) -> float:
    """Return the milliseconds of processor time that storing 1,000 characters takes, of some documents."""
    names = random.Random(SEED).sample(list(judged.documents), min(STORED, len(judged.documents)))  # noqa: S311 - no secret
    some = JudgedSet(judged.name, judged.documents, {WHOLE: names}, [])
    with TemporaryDirectory() as folder, opened(Path(folder) / "m.db", SearchMode.HYBRID, embedder) as store:
        began = time.process_time()
        dict(filled(store, some))
        return (time.process_time() - began) * 1_000_000 / sum(len(judged.documents[name]) for name in names)


@contextmanager
def ways(
    path: Path, judged: JudgedSet, embedder: Embedder, documents: Mapping[int, str]
) -> Iterator[dict[str, Ranking]]:
    """Yield every way to rank, by its name: those of the store first, then plain ones over the same texts."""
    with ExitStack() as stores:
        modes = {DEFAULT: SearchMode.HYBRID, MEANING: SearchMode.VECTOR, WORDS: SearchMode.KEYWORD}
        opening = {name: opened(path, mode, embedder) for name, mode in modes.items()}
        opening[NO_LATE] = opened(path, SearchMode.HYBRID, embedder, late_interaction=False)
        found: dict[str, Ranking] = {
            name: SearchModeRanking(stores.enter_context(store), judged, documents) for name, store in opening.items()
        }
        found[NO_GATE] = Patched(found[DEFAULT], "gated", lambda *_: (True, set()))
        found[ALL_SHOWN] = Patched(
            found[DEFAULT], "weighed", lambda hits, _: [hit._replace(match="strong") for hit in hits.hits]
        )
        found[ORIGINAL] = OriginalDesign(judged, embedder)
        found[WHOLE_TEXTS] = Vectors(judged, embedder)
        found[BM25] = Words(judged)
        yield found


def ask(way: Ranking, questions: Sequence[Question]) -> tuple[list[list[str]], list[float]]:
    """Return what is found for each question, and the milliseconds of processor time that it took."""
    lists, times = [], []
    for question in questions:
        began = time.process_time()
        lists.append(way.rank(question))
        times.append((time.process_time() - began) * 1000)
    return lists, times


def metrics(found: Sequence[str], grades: Mapping[str, float]) -> tuple[float, ...]:
    """Return the values of `METRICS` for one ranking."""
    gain, recall, first = score(found, grades)
    right = len(set(found[:COUNTED]) & set(grades))
    among_ten = len(set(found) & set(grades)) / len(grades)
    return gain, recall, among_ten, first, float(right > 0), float(right >= min(len(grades), COUNTED))


def summary(values: Scores, default: Scores) -> Figures:
    """Return the means of a way, and how much better the default is in nDCG@10, with its 95 % interval."""
    less = [round(each, 4) for each in interval([default[:, 0] - values[:, 0]], SEED)]
    return {**means(values), "default better by": less}


def means(values: Scores) -> dict[str, float]:
    """Return the mean of each metric. Shape of the values: (questions, metrics)."""
    return dict(zip(METRICS, np.round(values.mean(axis=0), 4).tolist(), strict=True))


def by_kind(questions: Sequence[Question], values: Mapping[str, Scores]) -> Figures:
    """Return for each kind of question how many there are, and the means of every way."""
    kinds = np.array([question.kind for question in questions])
    figures: Figures = {}
    for kind in sorted(set(kinds.tolist()) - {""}):
        chosen = kinds == kind
        figures[kind] = {"questions": int(chosen.sum()), **{name: means(each[chosen]) for name, each in values.items()}}
    return figures


def places(questions: Sequence[Question], lists: Mapping[str, Sequence[Sequence[str]]]) -> Figures:
    """Return for each question how many documents are right, and at which places they came, from 1 on."""
    return {
        question.name: {
            "kind": question.kind,
            "right": len(question.grades),
            **{
                name: [place for place, document in enumerate(found[number], 1) if document in question.grades]
                for name, found in lists.items()
            },
        }
        for number, question in enumerate(questions)
    }


def served(path: Path, judged: JudgedSet, documents: Mapping[int, str]) -> Figures:
    """Ask the real server, and return what an agent reads: lean answers, with the defaults and within budgets."""
    questions = random.Random(SEED).sample(judged.questions, min(SERVED, len(judged.questions)))  # noqa: S311 - no secret
    budgets = {DEFAULT: {}, **{f"{budget:,} tokens": {"limit": MOST, "max_tokens": budget} for budget in BUDGETS}}
    with server_on(path, "full", "--answers", "lean") as call:

        def answer(question: Question, **more: int) -> Figures:
            found = call(TOOLS[judged.kind], query=question.text, session_id=question.scope, **more)
            return dict(found["structuredContent"])

        return {
            "questions": len(questions),
            "counted in": "cl100k_base" if has_cl100k() else f"characters / {CHARACTERS_PER_TOKEN}",
            "answers": {
                name: read([(each, answer(each, **more)) for each in questions], documents)
                for name, more in budgets.items()
            },
        }


def read(answered: Sequence[tuple[Question, Figures]], documents: Mapping[int, str]) -> Figures:
    """Return what is in the answers to questions.

    any, all: the share of questions of which one right document is in the answer, and of which all are. precision: the
    share of an answer's documents that are right; 0 for an empty one.
    """
    values = []
    for question, answer in answered:
        results = answer.get("results", [])
        shown = {documents[each["memory_id"]] for each in results}
        right = len(shown & question.grades.keys())
        size = token_count(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        values.append((right > 0, right == len(question.grades), right / max(1, len(shown)), len(results), size))
    columns = np.array(values, np.float64).T
    return {
        **dict(zip(("any", "all", "precision"), np.round(columns[:3].mean(axis=1), 4).tolist(), strict=True)),
        "results": float(np.median(columns[3])),
        "tokens": round(float(np.median(columns[4]))),
        "tokens, 95th percentile": round(float(np.percentile(columns[4], 95))),
    }


def token_count(text: str) -> float:
    """Return the number of tokens of a text, or an estimate where the encoding is not there."""
    return find_token_counter(None)(text) if has_cl100k() else len(text) / CHARACTERS_PER_TOKEN
