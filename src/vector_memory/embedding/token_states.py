"""The states that a model computes for the tokens of a text, of which the text's vector is the mean.

Comparing single tokens (late interaction: Khattab and Zaharia, 2020, arXiv:2004.12832) finds details that the mean has
lost. Of a passage, each state is stored as the signs of its numbers, one bit for each; questions are not rounded. Only
content counts, in both: tokens that are words, but not stop words.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.ranking import rounded
from vector_memory.storage.terms import STOP_WORDS

States = NDArray[np.float32]
"""One row per token, shape (tokens, dimensions)."""

MAX_QUESTION_TOKENS = 32
"""Tokens of a question that are compared, from the first one. Those of 1,000 questions, which are kept, take 50 MB."""

PIECE = "#▁Ġ"
"""Characters by which vocabularies mark where words begin or go on."""

SMALLEST_LENGTH = np.float32(1e-12)


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
    """Return the states of a question as they are compared: with length 1, and no more than are compared."""
    first = states[:MAX_QUESTION_TOKENS]
    unit: States = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), SMALLEST_LENGTH)
    return unit


def packed(states: States) -> bytes:
    """Return the signs of states, one bit for each number, each state from a byte's highest bit on."""
    return np.packbits(states > 0, axis=1).tobytes()


def bytes_per_state(dimensions: int) -> int:
    """Return how many bytes the signs of a state take."""
    return (dimensions + 7) // 8


def late_scores(question: States, passages: Sequence[bytes]) -> NDArray[np.float64]:
    """Return for each passage the mean, over the question's tokens, of the highest cosine with one of its tokens.

    The cosine is estimated from the signs, as if the numbers of a state were normally distributed. It is 0 for a
    passage without tokens.
    """
    asked, dimensions = len(question), question.shape[1]
    width, total = bytes_per_state(dimensions), question.sum(axis=1)

    def score(passage: bytes) -> float:
        # One passage at a time: its score does not depend on the others, and a long note would take a gigabyte.
        if not passage or not asked:
            return 0.0
        bits = np.frombuffer(passage, np.uint8).reshape(-1, width)
        signs = np.unpackbits(bits, axis=1, count=dimensions).astype(np.float32)
        nearest = (2 * (signs @ question.T) - total).max(axis=0)
        return float(nearest.sum()) / asked

    return rounded(np.array(list(map(score, passages))) / np.sqrt(dimensions * 2 / np.pi))
