"""Benchmarks that others publish, too: ours beside plain rankings of the same texts, in one run, with one command each.

uv run benchmarks/public longmemeval --data longmemeval_s_cleaned.json [--turns] [--cache DIR] [--questions N]
uv run benchmarks/public locomo --data locomo10.json [--turns] ...
uv run benchmarks/public beir --data FOLDER ...
uv run benchmarks/public judged --data NAME.json.gz [--split NAME] ...
uv run benchmarks/public precisionmembench --data CLONE
uv run benchmarks/public servers --data NAME.json.gz --cache DIR [--split NAME]

No data is fetched: docs/lab/benchmarks.md says where the data comes from. Every document is stored and every question
asked through the library, and then asked again of the real server. Each run is written to benchmarks/public/results;
`uv run scripts/make_docs.py` makes the tables of the pages of it. `--cache` keeps vectors for the next run.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "retrieval"))  # behind this folder

import beir
import locomo
import longmemeval
import other_servers
import precisionmembench
from cache import CachedEmbedder
from judged import JudgedSet, load
from measuring import SEED, measure
from provenance import RESULTS, described

from vector_memory.embedding import load_embedder
from vector_memory.settings import Settings

BENCHMARKS = ("longmemeval", "locomo", "beir", "judged", "precisionmembench", "servers")


def read(options: argparse.Namespace) -> JudgedSet:
    """Read the data of a benchmark of rankings."""
    match options.benchmark:
        case "longmemeval":
            judged = longmemeval.read(options.data, by_turns=options.turns)
        case "locomo":
            judged = locomo.read(options.data, by_turns=options.turns)
        case "beir":
            judged = beir.read(options.data)
        case _:
            judged = load(options.data, None, SEED, options.split)
    if options.questions:
        questions = list(judged.questions)[: options.questions]
        asked = {question.scope for question in questions}
        scopes = {scope: names for scope, names in judged.scopes.items() if scope in asked}
        documents = {name: judged.documents[name] for names in scopes.values() for name in names}
        judged = JudgedSet(judged.name, documents, scopes, questions)
    return judged


def write(result: dict[str, Any], path: Path) -> None:
    """Write a result, with a line for each question."""
    questions = result.pop("questions", {})
    text = json.dumps(result, indent=1)
    if questions:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in questions.items())
        text = f'{text[:-2]},\n "questions": {{\n{lines}\n }}\n}}'
    path.write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Run a benchmark, and write its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--data", type=Path, required=True, metavar="PATH")
    parser.add_argument("--turns", action="store_true", help="a document is a turn of a conversation, not a session")
    parser.add_argument("--split", help="ask only these questions of a judged set")
    parser.add_argument("--questions", type=int, metavar="N", help="ask only the first N questions")
    parser.add_argument("--model", default=Settings().embedding_model)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    parser.add_argument(
        "--server", action="append", metavar="NAME", help="ask only this server; the others keep their figures"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    embedder = load_embedder(Settings(embedding_model=options.model))
    run = described(options.data, embedder.fingerprint)
    if options.benchmark == "precisionmembench":
        name, figures = "precisionmembench", precisionmembench.measure(options.data, embedder)
    elif options.benchmark == "servers":
        judged = read(options)
        name = f"servers_{judged.name}"
        counts = {"asked": len(judged.questions), "tellable": other_servers.tellable(judged)}
        figures = {"documents": len(judged.documents), **counts}
        path = options.results / f"{name}.json"
        known = json.loads(path.read_text("utf-8")) if options.server and path.exists() else {}
        figures |= other_servers.added(known, run, other_servers.measure(judged, options.cache, options.server))
    else:
        judged = read(options)
        cached = CachedEmbedder(embedder, options.cache) if options.cache else embedder
        name, figures = judged.name, measure(judged, embedder, cached)
    path = options.results / f"{name}.json"
    write({"benchmark": options.benchmark, "run": run, **figures}, path)
    print(f"Written: {path}")


if __name__ == "__main__":
    main()
