"""The states that a model computes for the tokens of a text, of which the text's vector is the mean.

Comparing single tokens (late interaction: Khattab and Zaharia, 2020, arXiv:2004.12832) finds details that the mean has
lost. Of a passage, each state is stored as the signs of its numbers, one bit for each; questions are not rounded. Only
content counts, in both: tokens that are words, but not stop words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.scoring import rounded
from vector_memory.storage.terms import STOP_WORDS

States = NDArray[np.float32]
"""One row per token, shape (tokens, dimensions)."""

MAX_QUESTION_TOKENS = 32
"""Tokens of a question that are compared, from the first one. Those of 1,000 questions, which are kept, take 50 MB."""

PIECE = "#▁Ġ"
"""Characters by which vocabularies mark where words begin or continue."""

SMALLEST_LENGTH = np.float32(1e-12)

GRID = np.float32(2**19)
"""Numbers of a question are multiples of 1 / GRID. So any sum of up to 1,024 of them is exact, and cosines are the same
whatever they are computed together with."""

SMALL_PRODUCT = 2**18
"""Multiplications of a product that OpenBLAS does not split among threads, which wait for each other when the cores are
busy. The tokens in such a product, unpacked, stay in the processor's cache."""

MOST_BYTES = 2**20
"""Bytes of passages that are compared together. With the products of their tokens they take up to 5 MB."""


class Content:
    """Knows the tokens of a vocabulary that are content. `token_of`: returns the text of a token."""

    def __init__(self, token_of: Callable[[int], str | None]) -> None:
        self._is_content = cache(lambda number: is_content(token_of(number) or ""))

    def of(self, ids: NDArray[np.int64], states: States) -> States:
        """Return the states of the tokens that are content, or of all if none is."""
        kept = np.fromiter(map(self._is_content, ids.tolist()), np.bool_, len(ids))
        return states[kept] if kept.any() else states


def is_content(token: str) -> bool:
    """Return whether a token is a word or a part of one, but no stop word."""
    word = token.strip(PIECE)
    return any(map(str.isalnum, word)) and word.casefold() not in STOP_WORDS


def of_question(states: States) -> States:
    """Return the states of a question as they are compared: with length 1, on GRID, no more than are compared."""
    first = states[:MAX_QUESTION_TOKENS]
    lengths = np.maximum(np.linalg.norm(first, axis=1, keepdims=True), SMALLEST_LENGTH)
    unit: States = np.rint(first / lengths * GRID) / GRID
    return unit


def packed(states: States) -> bytes:
    """Return the signs of states, one bit for each number, each state from a byte's highest bit on."""
    return np.packbits(states > 0, axis=1).tobytes()


def bytes_per_state(dimensions: int) -> int:
    """Return how many bytes the signs of a state take."""
    return (dimensions + 7) // 8


@dataclass(frozen=True, slots=True)
class Compared:
    """A passage compared with a question token by token. `score`: its late score, which is the mean of `nearest`.

    `nearest`: for each token of the question the highest cosine with one of the passage's, shape (tokens,). `length`:
    how many of its tokens have states.
    """

    score: float
    nearest: NDArray[np.float32]
    length: int

    def joined(self, other: "Compared") -> "Compared":
        """Return both as one, with the better score."""
        nearest = np.maximum(self.nearest, other.nearest)
        return Compared(max(self.score, other.score), nearest, self.length + other.length)


def compare(question: States, passages: Sequence[bytes]) -> list[Compared]:
    """Compare passages with a question.

    Cosines are estimated from the signs, as if the numbers of a state were normally distributed. They are 0 for a
    passage without tokens.
    """
    if len(passages) > 1 and sum(map(len, passages)) > MOST_BYTES:
        half = len(passages) // 2
        return compare(question, passages[:half]) + compare(question, passages[half:])
    asked, dimensions = question.shape
    width = bytes_per_state(dimensions)
    lengths = np.array([len(passage) // width for passage in passages], np.int64)
    nearest, scores = np.zeros((len(passages), asked), np.float32), np.zeros(len(passages))
    compared = np.flatnonzero(lengths)
    if asked and len(compared):
        signs = np.frombuffer(b"".join(passages), np.uint8).reshape(-1, width)
        products = np.empty((len(signs), asked), np.float32)
        tokens = SMALL_PRODUCT // question.size
        for start in range(0, len(signs), tokens):
            bits = np.unpackbits(signs[start : start + tokens], axis=1, count=dimensions)
            np.matmul(bits.astype(np.float32), question.T, out=products[start : start + tokens])
        best = np.maximum.reduceat(products, (np.cumsum(lengths) - lengths)[compared])
        estimated = 2 * best - question.sum(axis=1)
        scale = float(np.sqrt(dimensions * 2 / np.pi))
        nearest[compared] = estimated / np.float32(scale)
        scores[compared] = rounded(estimated.sum(axis=1, dtype=np.float64) / asked / scale)
    return list(map(Compared, scores.tolist(), nearest, lengths.tolist()))
