"""How well searches find what answers a question, on judged sets, through the real store.

uv run benchmarks/retrieval [SET.json.gz ...] [--queries N] [--cache DIR] [--json FILE]

Without sets it takes those in benchmarks/retrieval/sets. Prints nDCG@10, recall@5 and MRR@10 of the search modes and of
the design of the original server, and 95 % intervals of the differences in nDCG@10 to the default search.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, load
from rankings import rankings
from scoring import METRICS, Scores, interval, score

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings

SETS = Path(__file__).parent / "sets"
SEED = 20
MISSING = f"""No judged set was given, and {SETS} holds none.
A set is a file NAME.json.gz:
{{"corpus": {{id: text}}, "queries": {{id: text}}, "qrels": {{query: {{document: grade}}}}}},
and if queries are to be asked in a part of the documents only, "scopes": {{scope: [document]}} and
"query_scope": {{query: scope}}. Put sets there, or name their files."""

Value = TypeVar("Value")
Results = dict[str, dict[str, Scores]]
"""By set and ranking: shape (questions, metrics)."""


def measure(judged: JudgedSet, embedder: Embedder) -> dict[str, Scores]:
    """Ask every question in every way. Shape of each value: (questions, metrics)."""
    with rankings(judged, embedder) as ways:
        return {
            name: np.array([score(way.rank(question), question.grades) for question in judged.questions])
            for name, way in ways.items()
        }


def print_scores(results: Results) -> None:
    """Print one table for each metric: a row for each ranking, a column for each set, and the mean over the sets."""
    for position, metric in enumerate(METRICS):
        print(f"\n| {metric} | {' | '.join(f'{name} ({len(first(ways))})' for name, ways in results.items())} | mean |")
        print("|---" * (len(results) + 2) + "|")
        for way in first(results):
            means = [ways[way][:, position].mean() for ways in results.values()]
            print(f"| {way} | {' | '.join(f'{mean:.3f}' for mean in [*means, np.mean(means)])} |")


def print_differences(results: Results) -> None:
    """Print how much better the default search is than each other ranking, in nDCG@10, with 95 % intervals."""
    default, *others = first(results)
    print(f"\n| nDCG@10: {default} less | {' | '.join(results)} | all sets |")
    print("|---" * (len(results) + 2) + "|")
    for other in others:
        paired = [ways[default][:, 0] - ways[other][:, 0] for ways in results.values()]
        cells = [interval(values, SEED) for values in [*([each] for each in paired), paired]]
        print(f"| {other} | {' | '.join(f'{mean:+.3f} ({low:+.3f} to {high:+.3f})' for mean, low, high in cells)} |")


def first(named: Mapping[str, Value]) -> Value:
    """Return the first value: of the sets or of the rankings."""
    return next(iter(named.values()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", type=Path, metavar="SET.json.gz")
    parser.add_argument("--queries", type=int, metavar="N", help="ask only N questions of each set, drawn at random")
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the values of every question here")
    options = parser.parse_args()
    sets = options.sets or sorted(SETS.glob("*.json.gz"))
    if not sets:
        return print(MISSING)
    embedder = load_embedder(Settings(embedding_model=options.model))
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    results: Results = {}
    for path in sets:
        judged = load(path, options.queries, SEED)
        print(f"{judged.name}: {len(judged.documents):,} documents, {len(judged.questions)} questions", file=sys.stderr)
        results[judged.name] = measure(judged, embedder)
    print_scores(results)
    print_differences(results)
    if options.json:
        values = {name: {way: table.tolist() for way, table in ways.items()} for name, ways in results.items()}
        options.json.write_text(json.dumps({"metrics": METRICS, "results": values}), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
