"""The states of a text's tokens, of which the text's vector is the mean.

Comparing single tokens (late interaction: Khattab and Zaharia, 2020, arXiv:2004.12832) finds details that the mean
loses. Passages store each state as the signs of its numbers, one bit each; questions are not rounded. Only content
tokens count: words other than stop words.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.scoring import rounded
from vector_memory.texts.terms import STOP_WORDS

States = NDArray[np.float32]
"""One row per token, shape (tokens, dimensions)."""

MAX_QUESTION_TOKENS = 32
"""Number of first tokens of a question that are compared. Those of 1,000 cached questions take 50 MB."""

PIECE = "#▁Ġ"
"""Marks in vocabularies for the beginning or continuation of words."""

SMALLEST_LENGTH = np.float32(1e-12)

GRID = np.float32(2**19)
"""Numbers of a question are multiples of 1 / GRID, so any sum of up to 1,024 of them is exact, and cosines do not
depend on the batch."""

SMALL_PRODUCT = 2**18
"""Multiplications of a product that OpenBLAS does not split among threads, which would wait for each other on busy
cores. The unpacked tokens of such a product stay in the processor's cache."""

MOST_BYTES = 2**20
"""Bytes of passages compared together. With the products of their tokens they take up to 5 MB."""


class Content:
    """Recognizes content tokens of a vocabulary. `token_of`: returns the text of a token."""

    def __init__(self, token_of: Callable[[int], str | None]) -> None:
        self._is_content = cache(lambda number: is_content(token_of(number) or ""))

    def of(self, ids: NDArray[np.int64], states: States) -> States:
        """Return the states of content tokens; of all tokens if there are none."""
        kept = np.fromiter(map(self._is_content, ids.tolist()), np.bool_, len(ids))
        return states[kept] if kept.any() else states


def is_content(token: str) -> bool:
    """Whether a token is a word or a part of one, but not a stop word."""
    word = token.strip(PIECE)
    return any(map(str.isalnum, word)) and word.casefold() not in STOP_WORDS


def of_question(states: States) -> States:
    """Prepare the states of a question: the first tokens, with length 1, on GRID."""
    first = states[:MAX_QUESTION_TOKENS]
    lengths = np.maximum(np.linalg.norm(first, axis=1, keepdims=True), SMALLEST_LENGTH)
    unit: States = np.rint(first / lengths * GRID) / GRID
    return unit


def packed(states: States) -> bytes:
    """Return the signs of states, one bit per number; each state starts at a byte's highest bit."""
    return np.packbits(states > 0, axis=1).tobytes()


def bytes_per_state(dimensions: int) -> int:
    """Return the size of a state's signs in bytes."""
    return (dimensions + 7) // 8


@dataclass(frozen=True, slots=True)
class Compared:
    """A passage compared with a question token by token. `score`: the late score, the mean of `nearest`.

    `nearest`: for each token of the question the highest cosine with a token of the passage, shape (tokens,). `length`:
    number of tokens with states.
    """

    score: float
    nearest: NDArray[np.float32]
    length: int


def compare(question: States, units: Mapping[int, Sequence[bytes | None]]) -> dict[int, Compared]:
    """Compare units with a question, given the states of their passages; empty if states are missing or damaged.

    A unit has the best score of its passages. Cosines are estimated from the signs, as if the numbers of a state were
    normally distributed; 0 for a passage without tokens.
    """
    asked, dimensions = question.shape
    width = bytes_per_state(dimensions)
    passages = [states for own in units.values() for states in own if states is not None and not len(states) % width]
    counts = np.array([len(own) for own in units.values()], np.int64)
    if not passages or len(passages) < counts.sum():
        return {}
    lengths = np.array([len(states) // width for states in passages], np.int64)
    nearest = np.zeros((len(passages), asked), np.float32)
    scores = np.zeros(len(passages))
    scale = float(np.sqrt(dimensions * 2 / np.pi))
    for first, last in runs_of(lengths * width):
        compared = first + np.flatnonzero(lengths[first:last])
        if asked and len(compared):
            products = products_with(question, b"".join(passages[first:last]), width)
            starts = (np.cumsum(lengths[first:last]) - lengths[first:last])[compared - first]
            estimated = 2 * np.maximum.reduceat(products, starts) - question.sum(axis=1)
            nearest[compared] = estimated / np.float32(scale)
            scores[compared] = rounded(estimated.sum(axis=1, dtype=np.float64) / asked / scale)
    starts = np.cumsum(counts) - counts
    best = np.maximum.reduceat(scores, starts).tolist(), np.maximum.reduceat(nearest, starts)
    return dict(zip(units, map(Compared, *best, np.add.reduceat(lengths, starts).tolist()), strict=True))


def runs_of(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield runs of passages of these sizes with at most MOST_BYTES together, or a single passage."""
    first, total = 0, 0
    for place, size in enumerate(sizes.tolist()):
        if place > first and total + size > MOST_BYTES:
            yield first, place
            first, total = place, 0
        total += size
    yield first, len(sizes)


def products_with(question: States, passages: bytes, width: int) -> States:
    """Return the products of the bits of each state of passages with each token of a question."""
    signs = np.frombuffer(passages, np.uint8).reshape(-1, width)
    products = np.empty((len(signs), len(question)), np.float32)
    tokens = SMALL_PRODUCT // question.size
    for start in range(0, len(signs), tokens):
        bits = np.unpackbits(signs[start : start + tokens], axis=1, count=question.shape[1])
        np.matmul(bits.astype(np.float32), question.T, out=products[start : start + tokens])
    return products
