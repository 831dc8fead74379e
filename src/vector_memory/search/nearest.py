"""Finds the memories that are nearest to a memory in meaning, of all kinds and sessions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vector_memory.domain import MemoryKind, Scope
from vector_memory.search.retriever import Retriever
from vector_memory.storage.base import Reader
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import Memory


class Near(NamedTuple):
    """A memory, and the cosine of its nearest passage."""

    memory: Memory
    cosine: float


def nearest_to(reader: Reader, retriever: Retriever, memory_id: int, count: int) -> Sequence[Near]:
    """Return the `count` memories nearest to the mean vector of a memory, nearest first; none if it has no vector."""
    _, means = reader.mean_vectors([memory_id])
    if not len(means) or not np.any(means):
        return []
    retrieval = retriever.near(reader, means[0] / np.linalg.norm(means[0]))
    found = retrieval.find_among([Scope(kind) for kind in MemoryKind], count + 1, memories=True)
    hits = [hit for hit in found.hits if hit.memory_id != memory_id and hit.similarity is not None][:count]
    memories = reader.memories([hit.memory_id for hit in hits])
    require_all(memories, (hit.memory_id for hit in hits))
    return [Near(memories[hit.memory_id], hit.similarity or 0.0) for hit in hits]
