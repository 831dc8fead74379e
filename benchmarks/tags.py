"""How well tags are merged: `uv run benchmarks/tags.py` over the pairs in tests/tagged/tag_pairs.tsv.

A pair is right when two forms of one subject merge and two subjects do not. What to expect of each pair was written
before the model was asked. Pairs that come out otherwise are kept in tests/tagged/tag_surprises.tsv, which `--record`
writes: the tests hold every outcome.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import Settings
from vector_memory.tagged.tags import normalized_tag
from vector_memory.tagged.vocabulary import (
    MERGE_THRESHOLD,
    SUBSTRING_BOOST,
    as_words,
    guarded,
    is_boosted,
    merges,
    threshold,
)

TABLES = Path(__file__).parents[1] / "tests" / "tagged"
PAIRS, SURPRISES = TABLES / "tag_pairs.tsv", TABLES / "tag_surprises.tsv"


class Pair(NamedTuple):
    """Two tags, whether they should merge, and what the pair is an example of."""

    first: str
    second: str
    expected: str
    group: str


class Outcome(NamedTuple):
    """What a way of merging makes of a pair."""

    pair: Pair
    merged: bool

    @property
    def right(self) -> bool:
        """Whether the result is the expected one."""
        return self.merged == (self.pair.expected == "merge")


Way = Callable[[str, str], bool]


def read(path: Path) -> list[Pair]:
    """Return the pairs of a table."""
    return [Pair(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def ways(embedder: Embedder) -> dict[str, Way]:
    """Return the ways of merging that are compared."""

    def cosine(first: str, second: str) -> float:
        one, other = embedder.embed([first]), embedder.embed([second])
        return float(one[0] @ other[0])

    def full(first: str, second: str) -> bool:
        first, second = normalized_tag(first), normalized_tag(second)
        return first == second or merges(first, second, cosine(as_words(first), as_words(second)))

    def specified(first: str, second: str) -> bool:
        first, second = normalized_tag(first), normalized_tag(second)
        similarity = cosine(first, second) + (SUBSTRING_BOOST if is_boosted(first, second) else 0)
        return first == second or (not guarded(first, second) and similarity >= threshold(first, second))

    return {
        "all rules": full,
        "the specified rules": specified,
        "guards alone": lambda first, second: not guarded(normalized_tag(first), normalized_tag(second)),
        "threshold alone": lambda first, second: cosine(first.lower(), second.lower()) >= MERGE_THRESHOLD,
        "same letters alone": lambda first, second: normalized_tag(first) == normalized_tag(second),
    }


def figures(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Return precision and recall of the merges, and the share of pairs that are right."""
    counts = Counter((outcome.merged, outcome.right) for outcome in outcomes)
    merged, wanted = counts[True, True] + counts[True, False], counts[True, True] + counts[False, False]
    return {
        "precision": counts[True, True] / merged if merged else 1.0,
        "recall": counts[True, True] / wanted,
        "right": (counts[True, True] + counts[False, True]) / counts.total(),
    }


def main() -> None:
    """Print the figures of each way, and those of the rules by group; with --record write the surprises."""
    pairs = read(PAIRS)
    found = {
        name: [Outcome(pair, way(pair.first, pair.second)) for pair in pairs]
        for name, way in ways(load_embedder(Settings())).items()
    }
    print(f"{len(pairs)} pairs, {sum(pair.expected == 'merge' for pair in pairs)} of them to be merged\n")
    print("| Way | Precision | Recall | Right |\n| --- | --- | --- | --- |")
    for name, outcomes in found.items():
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in figures(outcomes).values())} |")
    print("\n| Pairs | Number | Right |\n| --- | --- | --- |")
    for group in dict.fromkeys(pair.group for pair in pairs):
        some = [outcome for outcome in found["all rules"] if outcome.pair.group == group]
        print(f"| {group} | {len(some)} | {sum(outcome.right for outcome in some)} |")
    surprises = [outcome.pair for outcome in found["all rules"] if not outcome.right]
    if "--record" in sys.argv:
        SURPRISES.write_text("".join("\t".join(pair) + "\n" for pair in surprises), encoding="utf-8")
    for pair in surprises:
        if pair.expected == "keep":
            print(f"\nMerged, and should not be: {pair.first} | {pair.second}", end="")
    print()


if __name__ == "__main__":
    main()
