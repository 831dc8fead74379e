"""What a misspelt word costs: each question as it is, and with a slip in one word, which may be read as another one.

uv run benchmarks/retrieval/misspelt.py SET.json.gz ... --cache DIR

Prints nDCG@10 by words and by both, with such words searched as they are, and read as the nearest one of the scope.
"""

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from cache import CachedEmbedder
from judged import JudgedSet, Question, load
from rankings import SearchModeRanking, filled, opened
from scoring import score

from vector_memory.domain import SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.texts.terms import STOP_WORDS

SEED = 7
WORD = re.compile(r"(?<![\w./:@#-])[A-Za-z][a-z]{3,}(?![\w/:@#-]|\.\w)")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_a_slip(text: str, chance: random.Random) -> str | None:
    """Return a text with two letters of a word swapped, or one left out, doubled or replaced by any other."""
    words = [found for found in WORD.finditer(text) if found[0].lower() not in STOP_WORDS]
    if not words:
        return None
    found = chance.choice(words)
    word, place = found[0], chance.randrange(1, len(found[0]))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    slips = [before + after, before + letter + letter + after, before + chance.choice(LETTERS) + after]
    slips += [before + after[0] + letter + after[1:]] if after else []
    slip = chance.choice([one for one in slips if one != word])
    return text[: found.start()] + slip + text[found.end() :]


def measure(judged: JudgedSet, embedder: Embedder) -> None:
    """Print a line for each mode and sort of question."""
    chance = random.Random(SEED)  # noqa: S311 - not a secret
    slips = [(with_a_slip(question.text, chance), question) for question in judged.questions]
    sorts = {
        "as they are": judged.questions,
        "with a slip": [Question(text, one.scope, one.grades) for text, one in slips if text is not None],
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with opened(path, SearchMode.HYBRID, embedder) as store:
            documents = dict(filled(store, judged))
        for mode in (SearchMode.KEYWORD, SearchMode.HYBRID):
            with opened(path, mode, embedder) as store:
                way = SearchModeRanking(store, judged, documents)
                for name, asked in sorts.items():
                    read = mean(way, asked)
                    with patch("vector_memory.search.question.plain_words", lambda _: {}):
                        as_typed = mean(way, asked)
                    print(f"| {judged.name}, {mode}, {name} | {as_typed:.4f} | {read:.4f} |", flush=True)


def mean(way: SearchModeRanking, asked: Sequence[Question]) -> float:
    """Return the mean nDCG@10 of questions."""
    return float(np.mean([score(way.rank(question), question.grades)[0] for question in asked]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.json.gz")
    parser.add_argument("--cache", type=Path, metavar="DIR", required=True, help="keep vectors here for the next run")
    options = parser.parse_args()
    embedder = CachedEmbedder(load_embedder(Settings()), options.cache)
    for path in options.sets:
        measure(load(path, None, SEED), embedder)


if __name__ == "__main__":
    main()
