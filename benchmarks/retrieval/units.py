"""The units of a scope with their texts, to rank them by scores that no search returns."""

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.base import Reader
from vector_memory.storage.scoring import Match

DEPTH = 10

Values = NDArray[np.float64]
"""One for each unit."""


class Units:
    """The units of a scope, with their texts."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self.matches: list[Match] = []
        self.texts: list[str] = []
        for memory_id in reader.feed.memories_in(reader.visible(scope)):
            chunks = [(each.id, each.chunk.text) for each in reader.chunks_of(memory_id)]
            for unit, text in chunks or [(memory_id, reader.memory(memory_id).content)]:
                self.matches.append(Match(unit, memory_id, 0.0))
                self.texts.append(text)

    def documents(self, scores: Values) -> list[int]:
        """Return the ten best memories, each with its best unit."""
        order = np.argsort(-scores, kind="stable").tolist()
        return list(dict.fromkeys(self.matches[index].memory_id for index in order))[:DEPTH]

    def has(self, scores: Values, fact: str) -> bool:
        """Return whether one of the ten best units contains a fact."""
        return any(fact in self.texts[index] for index in np.argsort(-scores, kind="stable")[:DEPTH])

    def values(self, found: dict[int, float]) -> Values:
        """Return the scores of the units, given by id."""
        return np.array([found.get(match.id, 0.0) for match in self.matches])
