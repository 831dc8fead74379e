"""Shows a memory to a person: whole, with everything around it."""

from vector_memory.answers.documents import MemoryPage, NearMemory
from vector_memory.answers.mapping import memory_entry, observations_on, provenance, succession_of
from vector_memory.domain import Scope
from vector_memory.domain.validation import parse_id
from vector_memory.reading.documents import chunk_entry, existing_memory
from vector_memory.reading.overview import EXCERPT_LENGTH
from vector_memory.search.copies import repeats
from vector_memory.search.retrieval import Retriever, nearest_to
from vector_memory.storage.base import Storage

NEAREST = 5
"""Number of nearest memories."""


class MemoryPages:
    """Builds pages of memories."""

    def __init__(self, storage: Storage, retriever: Retriever) -> None:
        self._storage = storage
        self._retriever = retriever

    def page(self, memory_id: str | int) -> MemoryPage:
        """Return a memory uncut, with its chunks, observations, nearest memories and newer ones on its subject.

        Does not count as a read. Raises NotFoundError.
        """
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            memory = existing_memory(reader, number)
            return MemoryPage(
                memory=memory_entry(memory).model_copy(update=succession_of(reader, number)),
                chunks=[chunk_entry(part, part.chunk.text) for part in reader.chunks.of(number)],
                observations=observations_on(reader, [memory]),
                nearest=[
                    NearMemory(
                        **provenance(near.memory),
                        memory_id=near.memory.id,
                        beginning=near.memory.content[:EXCERPT_LENGTH],
                        similarity=near.cosine,
                        is_copy=repeats(*sorted([memory, near.memory], key=lambda one: -one.id)),
                    )
                    for near in nearest_to(reader, self._retriever, number, NEAREST)
                ],
                **reader.run(self._retriever.later_of(reader, [number], Scope())).get(number, {}),
            )
