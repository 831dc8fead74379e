"""The states that the model computes for the tokens of a text before it takes their mean, and ways to store them."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.storage.terms import STOP_WORDS

States = NDArray[np.float32]
"""A unit vector for each token, shape (tokens, dimensions)."""

SEED = 20


@dataclass(frozen=True, slots=True)
class Read:
    """The states of a text's tokens, without the special ones, and which tokens are content: words, no stop words."""

    states: States
    is_content: NDArray[np.bool_]

    def kept(self, *, content: bool) -> States:
        """Return the states of all tokens, or of the content if there is any."""
        return self.states[self.is_content] if content and self.is_content.any() else self.states


class Reading:
    """Computes states with the engine of the default model."""

    def __init__(self, engine: OnnxEngine) -> None:
        self._engine = engine

    def __call__(self, text: str) -> Read:
        """Read a text as the model reads a passage."""
        ids = self._engine._tokens(text)  # noqa: SLF001 - the encoder without its pooling
        states = self._engine._hidden(ids[None])[0][1:-1]  # noqa: SLF001
        pieces = [self._engine._tokenizer.id_to_token(each) for each in ids[1:-1].tolist()]  # noqa: SLF001
        content = [any(map(str.isalnum, piece)) and piece not in STOP_WORDS for piece in pieces]
        return Read(unit(states), np.array(content, bool))


class Kind(NamedTuple):
    """A way to store the states of passages. `content`: only those of content. `bits`: of a state; 0: all numbers.

    Fewer bits than numbers are those of a random projection, which questions are projected by as well.
    """

    pack: Callable[[States], bytes]
    unpack: Callable[[bytes, int], States]
    content: bool
    bits: int = 0

    def states(self, read: Read) -> States:
        """Return what is compared, before it is stored."""
        kept = read.kept(content=self.content)
        return unit(kept @ projection(kept.shape[1], self.bits)) if 0 < self.bits < kept.shape[1] else kept


def unit(states: States) -> States:
    """Return vectors of length 1."""
    result: States = states / np.linalg.norm(states, axis=1, keepdims=True)
    return result


@cache
def projection(width: int, bits: int) -> States:
    """Return orthogonal columns in random directions, shape (width, bits)."""
    columns, _ = np.linalg.qr(np.random.default_rng(SEED).normal(size=(width, bits)))
    result: States = columns.astype(np.float32)
    return result


def to_floats(states: States) -> bytes:
    """Return every number as it is."""
    return states.astype(np.float32).tobytes()


def from_floats(data: bytes, width: int) -> States:
    """Return the states."""
    return np.frombuffer(data, np.float32).reshape(-1, width)


def to_bits(states: States) -> bytes:
    """Return the sign of every number."""
    return np.packbits(states > 0, axis=1).tobytes()


def from_bits(data: bytes, width: int) -> States:
    """Return states of equal numbers, of such a length that products with other states are near the cosines."""
    signs = np.unpackbits(np.frombuffer(data, np.uint8).reshape(-1, width // 8), axis=1).astype(np.float32)
    return (2 * signs - 1) / np.float32(np.sqrt(width * 2 / np.pi))


KINDS = {
    "all tokens": Kind(to_floats, from_floats, content=False),
    "content": Kind(to_floats, from_floats, content=True),
    "content, 384 bits": Kind(to_bits, from_bits, content=True, bits=384),
    "content, 128 bits": Kind(to_bits, from_bits, content=True, bits=128),
    "content, 64 bits": Kind(to_bits, from_bits, content=True, bits=64),
}
"""Ways to store the states of passages, with 32 bits for each number unless said. Questions are not rounded."""


def late_score(question: States, passages: Sequence[States]) -> float:
    """Return the score of a unit: of its best passage, the mean over the question's tokens of the highest cosine."""
    if not len(question):
        return 0.0
    products = (each @ question.T for each in passages if len(each))
    return max((float(each.max(axis=0).mean()) for each in products), default=0.0)


def seconds_from_file(kind: Kind, question: States, units: Sequence[Sequence[States]]) -> float:
    """Return the seconds of processor time to read the states of some units from a file and to compare them."""
    with TemporaryDirectory() as folder:
        file = sqlite3.connect(Path(folder) / "states.db")
        file.execute("create table states (passage integer primary key, unit integer not null, states blob not null)")
        file.execute("create index by_unit on states (unit)")
        rows = [(number, kind.pack(each)) for number, passages in enumerate(units) for each in passages]
        file.executemany("insert into states (unit, states) values (?, ?)", rows)
        file.commit()
        start = time.process_time()
        for number in range(len(units)):
            found = file.execute("select states from states where unit = ?", (number,)).fetchall()
            late_score(question, [kind.unpack(data, question.shape[1]) for (data,) in found])
        taken = time.process_time() - start
        file.close()
    return taken
