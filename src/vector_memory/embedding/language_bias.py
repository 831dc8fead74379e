"""Removes a text's language from a model's vectors, so that its meaning is left.

A multilingual model puts texts of one language near each other, whatever they are about. The means of parallel texts in
several languages differ by their languages only: the directions between these means are left out of each vector
(Yang et al. 2021, arXiv:2109.04727). The mean of all is subtracted before, which spreads cosines that are all high.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vector_memory.embedding import safetensors
from vector_memory.embedding.embedder import Vectors
from vector_memory.errors import EmbeddingUnavailableError

KIND = "F16"


@dataclass(frozen=True, slots=True)
class LanguageBias:
    """The mean vectors of questions and of passages, shape (width,), and orthonormal directions, shape (n, width).

    It is in a file of the model's folder, which scripts/make_language_bias.py writes.
    """

    query_mean: Vectors
    passage_mean: Vectors
    directions: Vectors

    def removed(self, vectors: Vectors, mean: Vectors) -> Vectors:
        """Return unit vectors, shape (..., width), without the mean and the directions; their lengths are not 1."""
        rest = vectors - mean
        return np.asarray(rest - (rest @ self.directions.T) @ self.directions, np.float32)

    def write(self, file: Path) -> None:
        """Write the file, with 16-bit floats."""
        named = {name: getattr(self, name).astype(np.float16) for name in self.__slots__}
        safetensors.write(file, {name: (KIND, each.shape, each.tobytes()) for name, each in named.items()})


def read_bias(file: Path, width: int) -> LanguageBias:
    """Read the file of a model whose vectors have `width` numbers.

    Raises EmbeddingUnavailableError if it is damaged or of another model.
    """
    stored = safetensors.read_header(file)
    shapes = {name: each.shape for name, each in stored.items()}
    count = next(iter(shapes.get("directions", ())), 0)
    wanted = {"query_mean": (width,), "passage_mean": (width,), "directions": (count, width)}
    if shapes != wanted or any(each.kind != KIND for each in stored.values()):
        raise EmbeddingUnavailableError(f"{file.name} does not fit the model: recreate it with this model.")
    data = file.read_bytes()

    def numbers(name: str) -> Vectors:
        found = np.frombuffer(data, np.float16, math.prod(shapes[name]), stored[name].offset)
        return found.reshape(shapes[name]).astype(np.float32)

    return LanguageBias(*map(numbers, LanguageBias.__slots__))
