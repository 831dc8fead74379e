"""Makes what is derived from the texts of an open memory again, for memories of any engine."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress
from vector_memory.maintenance.doctor.agreement import Comparison, Translated
from vector_memory.storage.base import Storage
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.tagged.vocabulary import Vocabulary


def compute_missing(
    storage: Storage, model: EmbeddingModel, indexer: Indexer, wrong: set[str], on_progress: Progress | None
) -> Iterator[str]:
    """Index what is not indexed yet, and compute the missing vectors if there is a model; say what was done.

    `wrong`: the names of the findings.
    """
    if "outdated" in wrong:
        yield "Indexed the words again that an earlier release had indexed."
    try:
        result = Backfill(storage, indexer, Vocabulary(storage, model)).run(on_progress)
    except EmbeddingUnavailableError:
        return
    if result.memories_processed:
        yield f"Computed the vectors of {counted(result.memories_processed, 'memory', 'memories')}."


def rebuild(storage: Storage, indexer: Indexer, translated: Translated, misfiled: Collection[int]) -> str:
    """Remove what is derived wrongly, and index the words of all memories. Correct chunks keep their ids.

    Memories with damaged text are left alone: their chunks may be all that is left of it. `misfiled`: the memories
    whose vectors have other fields than they. Without a model, vectors stay as they are.
    """
    with storage.read() as reader:
        comparison = Comparison(reader, indexer, translated, deep=True)
        faults = comparison.faults()
        wrong = faults["chunks"] | faults["passages"] | faults["vectors"] | set(misfiled)
        stripped = sorted(wrong - faults["text"]) if comparison.has_model else []
    with storage.write() as writer:
        portions = writer.upkeep.portions
        lifetimes = portions.lifetimes()
        writer.keywords.clear()  # first: nothing can be removed from a block that is damaged
        for whole in portions.whole(stripped, bare=True):
            memory = whole.memory
            chunks = [] if memory.id in faults["chunks"] else writer.chunks_of(memory.id)
            writer.delete(memory.id, for_good=False)
            portions.add_memories([WholeMemory(replace(memory, chunk_count=len(chunks)), chunks, None)], None)
        portions.set_lifetimes(lifetimes)
        writer.refresh(writer.wrong_lifecycles())
        writer.keywords.fill()
    return "Rebuilt what is derived from the texts."
