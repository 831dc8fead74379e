"""The worst answers of sets: questions whose right documents rank last, with what ranks first in their place.

uv run benchmarks/retrieval/worst.py SET.json.gz ... --cache DIR [--count N]

Prints for each set nDCG@10, how many questions find nothing right among ten results, and the worst of these: the rank
of the best right document by both, by words and by meaning (-: behind the first 100), and both texts.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from rankings import filled, opened
from scoring import DEPTH, score

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings

SEED = 7
MODES = (SearchMode.HYBRID, SearchMode.KEYWORD, SearchMode.VECTOR)
DEEP = 100
SHOWN = 160


def rankings(judged: JudgedSet, embedder: Embedder) -> dict[SearchMode, list[list[str]]]:
    """Return for each mode the first documents of each question."""
    found: dict[SearchMode, list[list[str]]] = {mode: [] for mode in MODES}
    with TemporaryDirectory() as folder, opened(Path(folder) / "memory.db", SearchMode.HYBRID, embedder) as store:
        documents = dict(filled(store, judged))
        for question in judged.questions:
            scope = Scope(judged.kind, session_id=question.scope)
            for mode in MODES:
                page = Page(limit=DEEP)
                answer = store.search_documents(question.text, scope, page, order="relevance", mode=mode)
                found[mode].append([documents[memory.id] for memory in answer.results])
    return found


def first_right(ranking: list[str], question: Question) -> int:
    """Return the rank of the best right document; behind the last if there is none."""
    return next((rank for rank, name in enumerate(ranking, 1) if name in question.grades), DEEP + 1)


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.json.gz")
    parser.add_argument("--cache", type=Path, metavar="DIR", required=True, help="keep vectors here for the next run")
    parser.add_argument("--count", type=int, default=4, metavar="N", help="worst answers shown of each set")
    options = parser.parse_args()
    embedder = CachedEmbedder(load_embedder(Settings()), options.cache)
    for path in options.sets:
        judged = load(path, None, SEED)
        found = rankings(judged, embedder)
        ranks = {
            mode: [first_right(one, question) for one, question in zip(each, judged.questions, strict=True)]
            for mode, each in found.items()
        }
        best = ranks[SearchMode.HYBRID]
        every = zip(found[SearchMode.HYBRID], judged.questions, strict=True)
        ndcg = np.mean([score(one, asked.grades)[0] for one, asked in every])
        print(
            f"\n{judged.name}: nDCG@10 {ndcg:.4f}, nothing right: {sum(rank > DEPTH for rank in best)} of {len(best)}"
        )
        for place in sorted(range(len(best)), key=lambda place: -best[place])[: options.count]:
            question = judged.questions[place]
            shown = [str(each[place]) if each[place] <= DEEP else "-" for each in ranks.values()]
            print(f"- {question.text}\n  {' / '.join(shown)}")
            right = max(question.grades, key=question.grades.__getitem__)
            for label, name in (("right", right), ("first", found[SearchMode.HYBRID][place][0])):
                print(f"  {label} {name}: {' '.join(judged.documents[name].split())[:SHOWN]!r}")


if __name__ == "__main__":
    main()
