"""The units of a scope with their texts, to rank them by scores that no search returns."""

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.base import Reader

DEPTH = 10

Values = NDArray[np.float64]
"""One for each unit."""


class Units:
    """The units of a scope, with their texts."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self.ids: list[int] = []
        self.memory_ids: list[int] = []
        self.texts: list[str] = []
        for memory_id in reader.candidates.memories_in(reader.visible(scope)):
            chunks = [(each.id, each.chunk.text) for each in reader.chunks_of(memory_id)]
            for unit, text in chunks or [(memory_id, reader.memory(memory_id).content)]:
                self.ids.append(unit)
                self.memory_ids.append(memory_id)
                self.texts.append(text)

    def documents(self, scores: Values) -> list[int]:
        """Return the ten best memories, each with its best unit."""
        order = np.argsort(-scores, kind="stable").tolist()
        return list(dict.fromkeys(self.memory_ids[index] for index in order))[:DEPTH]

    def has(self, scores: Values, fact: str) -> bool:
        """Return whether one of the ten best units contains a fact."""
        return any(fact in self.texts[index] for index in np.argsort(-scores, kind="stable")[:DEPTH])

    def values(self, ids: NDArray[np.int64], scores: Values) -> Values:
        """Return the scores of all units, given the ids of those that have one."""
        found = dict(zip(ids.tolist(), scores.tolist(), strict=True))
        return np.array([found.get(number, 0.0) for number in self.ids])
