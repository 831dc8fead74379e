"""How often a question finds its fact first in another language, by meaning alone.

uv run --extra multilingual benchmarks/retrieval/languages.py [MODEL ...]

The facts are in tests/data/languages.json: 25, each with a question in English, German, Russian, Chinese and Spanish.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import DEFAULT_MODEL, Settings

FACTS = json.loads((Path(__file__).parents[2] / "tests" / "data" / "languages.json").read_text(encoding="utf-8"))[
    "facts"
]
LANGUAGES = tuple(FACTS[0]["questions"])
NAMES = (
    "questions in four languages, facts in English",
    "questions, each among those of another language",
    "facts in five languages, none in that of the question",
    "the same, with others in the question's own language",
    "facts in five languages, those asked for in that of the question",
)


def hits(model: Embedder) -> Iterator[NDArray[np.bool_]]:
    """Yield for each measure whether each question found its fact first."""
    order = np.arange(len(FACTS))
    asked = {
        code: np.stack([model.encode_query(fact["questions"][code]).vector for fact in FACTS]) for code in LANGUAGES
    }
    stored = {code: model.embed([fact["questions"][code] for fact in FACTS]) for code in LANGUAGES}
    english, own = model.embed([fact["english"] for fact in FACTS]), model.embed([fact["text"] for fact in FACTS])
    yield np.concatenate([(asked[code] @ english.T).argmax(1) == order for code in LANGUAGES if code != "en"])
    pairs = itertools.permutations(LANGUAGES, 2)
    yield np.concatenate([(asked[one] @ stored[other].T).argmax(1) == order for one, other in pairs])
    written = np.array([fact["language"] for fact in FACTS])
    for mixed in (False, True):
        found = []
        for code in LANGUAGES:
            near = asked[code] @ own.T
            near[:, (written == code) & (not mixed)] = -1
            found.append((near.argmax(1) == order)[written != code])
        yield np.concatenate(found)
    yield np.concatenate([((asked[code] @ own.T).argmax(1) == order)[written == code] for code in LANGUAGES])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    names = parser.parse_args().models or ["multilingual-e5-small", DEFAULT_MODEL]
    measured = [list(hits(load_embedder(Settings(embedding_model=name)))) for name in names]
    print(f"| first | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for row, name in enumerate(NAMES):
        cells = [f"{each[row].mean():.2f}" for each in measured]
        print(f"| {len(measured[0][row])} {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
