"""What a learned sparse model would add to the default ranking: SPLADE-tiny as a part of the words' share.

uv run benchmarks/retrieval/sparse.py [--set SET.json.gz ...] [--planted FOLDER] [--model FOLDER] [--queries N]
    [--cache DIR]

The cosines and the words' scores of every unit of a question's scope are those of the real store; the sparse scores are
computed here from the same units' texts. Prints for judged sets nDCG@10 of each way to join them, the differences from
today's ranking with 95 % intervals, and what the model costs; for a folder of Markdown, how many planted facts are
among the first ten chunks (see `planted.py`).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import numpy as np
import planted
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from rankings import filled, opened
from scoring import Scores, print_gains, score
from splade import MISSING, Splade, packaged
from units import Units, Values

from vector_memory.domain import MemoryKind, Scope, SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.search.comparison import ExactComparison, Goal, ScopeQuery
from vector_memory.search.words import word_scores
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader
from vector_memory.storage.postings import buckets_of
from vector_memory.storage.scoring import VECTOR_WEIGHT, rounded
from vector_memory.storage.terms import query_terms, terms

SEED = 20
SAMPLE = 100
LEAST = 0.05
"""Tokens of less weight would not be stored."""


@dataclass(frozen=True, slots=True)
class Arms:
    """The scores of a scope's units for a question. `highest`: the sparse score of the question with itself."""

    cosine: Values
    words: Values
    sparse: Values
    highest: float

    def joined(self, share: float = 0.0, other: Values | None = None, weight: float = VECTOR_WEIGHT) -> Values:
        """Return the fused scores if another score has a share of the words' part. `weight`: of the cosine."""
        words = self.words if other is None else (1 - share) * self.words + share * other
        return weight * self.cosine + (1 - weight) * words

    @property
    def of_itself(self) -> Values:
        """The sparse scores as shares of that of the question with itself, at most 1."""
        return np.minimum(1.0, self.sparse / (self.highest or 1.0))


def of_best(scores: Values) -> Values:
    """Return scores as shares of the best one."""
    return scores / (scores.max(initial=0.0) or 1.0)


RULES: dict[str, Callable[[Arms], Values]] = {
    "today": Arms.joined,
    "sparse / itself, .3": lambda arms: arms.joined(0.3, arms.of_itself),
    "sparse / itself, .5": lambda arms: arms.joined(0.5, arms.of_itself),
    "the same, cosine .5": lambda arms: arms.joined(0.5, arms.of_itself, 0.5),
    "sparse / best, .3": lambda arms: arms.joined(0.3, of_best(arms.sparse)),
    "sparse / best, .5": lambda arms: arms.joined(0.5, of_best(arms.sparse)),
    "sparse / best, .7": lambda arms: arms.joined(0.7, of_best(arms.sparse)),
    "no sparse, words / best, .5": lambda arms: arms.joined(0.5, of_best(arms.words)),
}
"""Ways to join the arms, with the sparse score's share of the words' part. The last one shows what the divisor does."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the units of a set: tokens to store, terms stored today, and seconds of processor time to compute them."""

    tokens: float
    terms: float
    unit_seconds: float
    query_seconds: float


def measure(judged: JudgedSet, embedder: Embedder, model: Splade) -> tuple[dict[str, Scores], Cost]:
    """Ask every question in every way."""
    results: dict[str, list[tuple[float, float, float]]] = {rule: [] for rule in RULES}
    texts: list[str] = []
    with TemporaryDirectory() as folder, opened(Path(folder) / "memory.db", SearchMode.HYBRID, embedder) as store:
        documents = dict(filled(store, judged))
        for scope in judged.scopes:
            asked = [question for question in judged.questions if question.scope == scope]
            within = Scope(judged.kind, session_id=scope)
            with store._storage.read() as reader:  # noqa: SLF001 - every unit's scores, which no search returns
                units = Units(reader, within)
                texts += units.texts
                for question, arms in scores_of(reader, within, units, asked, embedder, model):
                    for rule, join in RULES.items():
                        found = [documents[memory] for memory in units.documents(join(arms))]
                        results[rule].append(score(found, question.grades))
    return {rule: np.array(values) for rule, values in results.items()}, cost(model, texts, judged.questions)


def scores_of(
    reader: Reader, scope: Scope, units: Units, questions: Sequence[Question], embedder: Embedder, model: Splade
) -> Iterator[tuple[Question, Arms]]:
    """Yield each question with all scores of all units."""
    if not questions:
        return
    asked = model.weights([question.text for question in questions])
    tokens = np.flatnonzero(asked.any(axis=0))
    rows = model.weights(units.texts, tokens)
    rows[rows < LEAST] = 0
    source = reader.candidates
    inside, _ = source.indexed(scope, [])
    for question, weights in zip(questions, asked[:, tokens], strict=True):
        query = embedder.encode_query(question.text).vector
        near = ExactComparison(ScopeQuery(source, scope, inside, None, query)).find(Goal(inside.count), 1.0)
        cosines = units.values(inside.ids[near.entries], near.cosines)
        wanted = query_terms(question.text)
        having = word_scores(inside, source.indexed(scope, buckets_of(wanted)).postings, wanted)
        words = units.values(inside.ids[having.entries], rounded(having.shares[having.entries]))
        yield question, Arms(cosines, words, (rows @ weights).astype(float), float(weights @ weights))


def measure_planted(folder: Path, embedder: Embedder, model: Splade) -> dict[str, list[str]]:
    """Return for each rule and place the shares of the facts found, by name and in other words."""
    facts: list[planted.Fact] = json.loads(planted.FACTS.read_text(encoding="utf-8"))
    cells: dict[str, list[str]] = {rule: [] for rule in RULES}
    with TemporaryDirectory() as draft, opened(Path(draft) / "memory.db", SearchMode.HYBRID, embedder) as store:
        planted.fill(store, list(planted.reports(folder)), facts)
        for place in planted.PLACES:
            within = Scope(MemoryKind.REPORT, session_id=place)
            with store._storage.read() as reader:  # noqa: SLF001
                units = Units(reader, within)
                asked = [[Question(fact[by], place, {}) for fact in facts] for by in ("name", "paraphrase")]
                found = [
                    [arms for _, arms in scores_of(reader, within, units, each, embedder, model)] for each in asked
                ]
            for rule, join in RULES.items():
                shares = [
                    mean(units.has(join(arms), fact["fact"]) for arms, fact in zip(each, facts, strict=True))
                    for each in found
                ]
                cells[rule].append(" / ".join(f"{share:.3f}" for share in shares))
    return cells


def cost(model: Splade, texts: Sequence[str], questions: Sequence[Question]) -> Cost:
    """Measure what the model takes on some units and questions."""
    some = np.random.default_rng(SEED).permutation(len(texts))[:SAMPLE].tolist()
    counts, unit_seconds = zip(*(timed(model, texts[index]) for index in some), strict=True)
    _, query_seconds = zip(*(timed(model, question.text) for question in questions[:SAMPLE]), strict=True)
    distinct = mean(len(set(terms(texts[index]))) for index in some)
    return Cost(mean(counts), distinct, median(unit_seconds), median(query_seconds))


def timed(model: Splade, text: str) -> tuple[int, float]:
    """Return how many tokens have weights, and the seconds of processor time it takes to know."""
    start = time.process_time()
    weights = model.weights([text])
    return int((weights >= LEAST).sum()), time.process_time() - start


def print_tables(results: dict[str, dict[str, Scores]], costs: dict[str, Cost]) -> None:
    """Print nDCG@10 by rule and set, its gains over today's, and the costs by set."""
    print_gains(results, RULES, SEED)
    print("\n| set | tokens a unit | terms a unit today | ms a unit | ms a query |\n|---|---|---|---|---|")
    for name, each in costs.items():
        seconds = f"{1000 * each.unit_seconds:.1f} | {1000 * each.query_seconds:.1f}"
        print(f"| {name} | {each.tokens:.0f} | {each.terms:.0f} | {seconds} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="sets", type=Path, nargs="+", default=[], metavar="SET.json.gz")
    parser.add_argument("--planted", type=Path, metavar="FOLDER", help="plant facts in the Markdown of a folder")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="the weights, if the package is not installed")
    parser.add_argument("--queries", type=int, metavar="N", help="ask only N questions of each set, drawn at random")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    folder = options.model or packaged()
    if folder is None:
        return print(MISSING)
    model, embedder = Splade(folder), load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    results: dict[str, dict[str, Scores]] = {}
    costs: dict[str, Cost] = {}
    for path in options.sets:
        judged = load(path, options.queries, SEED)
        print(f"{judged.name}: {len(judged.documents):,} documents, {len(judged.questions)} questions", file=sys.stderr)
        results[judged.name], costs[judged.name] = measure(judged, embedder, model)
    if results:
        print_tables(results, costs)
    if options.planted:
        planted.print_places(measure_planted(options.planted, embedder, model))
    return None


if __name__ == "__main__":
    main()
