"""Checks whether derived data matches the texts, for memories of any engine."""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError, DatabaseLockError, EmbeddingUnavailableError, VectorMemoryError
from vector_memory.storage.base import Reader, Storage, WholeMemory
from vector_memory.storage.postings import LENGTH, POSTING, indexed
from vector_memory.storage.queries.keywords import WordBlock
from vector_memory.storage.records import EmbeddedPassage, StoredPassage
from vector_memory.tagged.vocabulary import Vocabulary
from vector_memory.texts.terms import RULES
from vector_memory.upkeep.backfill import EVERYTHING, Backfill, Progress
from vector_memory.upkeep.doctor.report import Advice, Finding, Level, checked, fine, fixable, problem, warning
from vector_memory.writing.indexer import CutUnits, Indexer
from vector_memory.writing.writer import hash_of

MEMORIES_AT_ONCE = 100
BLOCKS_AT_ONCE = 20
SAMPLE = 64
"""Number of random passages to embed again: all of a small memory, different ones of a large memory each time."""
TOLERANCE = 0.01
"""By how much a vector's length, and each of its numbers, may differ: processors round differently."""

Check = Callable[[], Iterable[Finding]]

Translated = Callable[[], AbstractContextManager[None]]
"""Translates the errors of an engine into those of this package."""


PARTS = ("rows", "text", "chunks", "passages", "vectors")
"""The checks that compare each memory; the first two also run without --deep."""

Faults = dict[str, set[int]]
"""The memories that are wrong, by these checks."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares memories with their checksums and, if `deep`, with their derived data."""

    reader: Reader
    indexer: Indexer
    translated: Translated
    deep: bool

    def faults(self) -> Faults:
        """Read and compare each memory, and embed some passages again."""
        found: Faults = {part: set() for part in PARTS}
        sample = heapq.nlargest(SAMPLE, self._compared(found), key=lambda _: random.random())  # noqa: S311
        if self.has_model:
            found["vectors"].update(wrongly_embedded(sample, self.indexer))
        return found

    @property
    def has_model(self) -> bool:
        """Whether there is a model whose vectors are comparable with those of the memory."""
        try:
            self.reader.vectors.require_current(self.indexer.fingerprint)
        except EmbeddingUnavailableError:
            return False
        return True

    def _compared(self, found: Faults) -> Iterator[tuple[WholeMemory, StoredPassage]]:
        """Note each memory's faults, and yield the passages of correct ones."""
        ids = sorted(self.reader.memories.ids(EVERYTHING))
        for start in range(0, len(ids), MEMORIES_AT_ONCE):
            for whole in self._read(ids[start : start + MEMORIES_AT_ONCE], found):
                wrong = first_fault(whole, self.indexer if self.deep else None)
                if wrong:
                    found[wrong].add(whole.memory.id)
                else:
                    yield from ((whole, passage) for passage in whole.passages or ())

    def _read(self, ids: Sequence[int], found: Faults) -> Iterator[WholeMemory]:
        """Yield the readable memories; note what is unreadable in the others."""
        portions, part = self.reader.upkeep.portions, "rows"
        try:
            with self.translated():
                if len(ids) == 1:
                    portions.whole(ids, bare=True)
                    part = "chunks"
                    self.reader.chunks.of(*ids)
                    part = "vectors"
                read = portions.whole(ids, bare=not self.deep)
        except DatabaseError:
            if len(ids) == 1:
                found[part].add(*ids)
            else:
                for number in ids:
                    yield from self._read([number], found)
        else:
            yield from read


def first_fault(whole: WholeMemory, indexer: Indexer | None) -> str:
    """Return the first part of a memory that does not fit its text, or "". `indexer`: None: check only the text."""
    if hash_of(whole.memory.content) != whole.memory.content_hash:
        return "text"
    if indexer is None:
        return ""
    if not are_chunks_correct(whole, indexer):
        return "chunks"
    if not are_passages_correct(whole):
        return "passages"
    return "" if all(map(is_vector_correct, whole.passages or ())) else "vectors"


def are_chunks_correct(whole: WholeMemory, indexer: Indexer) -> bool:
    """Return whether a memory's chunks are those of its text, or if other settings cut it, parts of it."""
    memory, chunks = whole.memory, [stored.chunk for stored in whole.chunks]
    if not memory.chunked or (not chunks and whole.passages is None):
        return not chunks
    cut = indexer.chunk(memory.memory_type, memory.content)
    if [(chunk.start, chunk.end) for chunk in chunks] == [(chunk.start, chunk.end) for chunk in cut]:
        return [replace(chunk, token_count=0) for chunk in chunks] == [replace(chunk, token_count=0) for chunk in cut]
    return len(chunks) == memory.chunk_count and all(
        chunk.index == index and memory.content[chunk.start : chunk.end] == chunk.text
        for index, chunk in enumerate(chunks)
    )


def are_passages_correct(whole: WholeMemory) -> bool:
    """Return whether a complete memory's passages contain all words of its units, in order and without overlap.

    Another release may have cut them elsewhere. Models skip some characters, but none within words.
    """
    if whole.passages is None:
        return True
    content = whole.memory.content
    left: dict[int | None, tuple[int, int]] = {None: (0, len(content))}
    if whole.memory.chunked:
        left = {stored.chunk.index: (stored.chunk.start, stored.chunk.end) for stored in whole.chunks}
    for passage in whole.passages:
        start, end = left.get(passage.chunk, (0, 0))
        if not start <= passage.start < passage.end <= end or has_words(content[start : passage.start]):
            return False
        left[passage.chunk] = passage.end, end
    return not any(has_words(content[start:end]) for start, end in left.values())


def has_words(text: str) -> bool:
    """Return whether a text has letters or digits."""
    return any(map(str.isalnum, text))


def is_vector_correct(passage: StoredPassage) -> bool:
    """Return whether a vector has the length 1, and the states of tokens have one bit for each of its numbers."""
    is_long_enough = abs(np.linalg.norm(passage.vector) - 1) < TOLERANCE
    return bool(is_long_enough) and not len(passage.states or b"") % ((len(passage.vector) + 7) // 8)


def wrongly_embedded(sample: Sequence[tuple[WholeMemory, StoredPassage]], indexer: Indexer) -> set[int]:
    """Embed passages again, and return the memories whose vectors differ. Raises EmbeddingUnavailableError.

    Memories that were cut or enriched by other settings are not compared.
    """
    known: list[tuple[int, StoredPassage]] = []
    again = CutUnits([], [])
    for whole, passage in sample:
        memory, chunks = whole.memory, [stored.chunk for stored in whole.chunks]
        cut = indexer.cut(indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks))
        place = EmbeddedPassage(passage.chunk or 0, passage.start, passage.end)
        enriched = indexer.enriches(memory.memory_type)
        if place in cut.passages and all(stored.enriched == enriched for stored in whole.chunks):
            known.append((memory.id, passage))
            again.passages.append(place)
            again.texts.append(cut.texts[cut.passages.index(place)])
    vectors = next(indexer.embed_batches(again, 0)).vectors
    return {
        memory_id
        for (memory_id, passage), vector in zip(known, vectors, strict=True)
        if np.abs(passage.vector - vector).max() > TOLERANCE
    }


def are_words_correct(reader: Reader) -> bool:
    """Return whether the keyword index has the words of the texts, except in blocks from earlier rules."""
    portions, last_id = reader.upkeep.portions, 0
    while blocks := portions.blocks(last_id, BLOCKS_AT_ONCE):
        last_id = blocks[-1].id
        if not all(block.rules < RULES or is_block_correct(reader, block) for block in blocks):
            return False
    return True


def is_block_correct(reader: Reader, block: WordBlock) -> bool:
    """Return whether a block has exactly the words of its memories."""
    contents = block.contents
    if not contents.is_sound or len(contents.lengths) != block.units * LENGTH.itemsize:
        return False
    postings = defaultdict[int, bytes](bytes)
    spans = contents.spans()
    for memory_id, span in spans.items():
        units = reader.keywords.units_of(memory_id)
        words = indexed([unit.text for unit in units], span.start)
        if (contents.units_at(span), contents.lengths_at(span)) != ([unit.id for unit in units], words.lengths):
            return False
        for bucket, row in words.postings.items():
            postings[bucket] += row
    if not spans or reader.keywords.memories_in(block.id) != sorted(spans):
        return False
    return in_order(block.postings) == in_order(postings)


def in_order(rows: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return rows of postings, sorted. Rows too short for one posting stay unchanged."""
    return {
        bucket: row if len(row) % POSTING.itemsize else np.sort(np.frombuffer(row, POSTING)).tobytes()
        for bucket, row in rows.items()
        if row
    }


def agreements(
    reader: Reader, indexer: Indexer, translated: Translated, advice: Advice, *, deep: bool, other: Mapping[str, Check]
) -> Iterator[Finding]:
    """Compare derived data with the texts, and vectors with the model.

    `other`: the engine's own checks, which come first. Each check's transaction includes what all checks need.
    """
    portions = reader.upkeep.portions
    checks: dict[str, Check] = {
        **other,
        "counts": lambda: [checked("counts", portions.miscounted(), advice)],
        "text": lambda: [
            checked(name, wrong, advice)
            for name, wrong in Comparison(reader, indexer, translated, deep).faults().items()
            if deep or name in PARTS[:2]
        ],
        "superseded": lambda: [checked("superseded", reader.lifecycle.wrong(), advice)],
        "unindexed": lambda: [unindexed(reader), *outdated(portions.count_outdated())],
        "fingerprint": lambda: [fingerprint(reader, indexer)],
        "reembedding": lambda: reembedding(reader),
    }
    if deep:
        checks["keywords"] = lambda: [checked("keywords", "" if are_words_correct(reader) else "texts", advice)]
    failed: dict[str, str] = {}
    for name, check in checks.items():
        try:
            with translated():
                found = list(check())
        except DatabaseLockError:
            raise
        except VectorMemoryError as error:
            failed[name] = str(error)
        else:
            yield from found
    if failed:
        yield checked("reading", f"{', '.join(failed)}. {next(iter(failed.values()))}", advice)


def outdated(memories: int) -> Iterator[Finding]:
    """Say how many memories must be reindexed."""
    if memories:
        message = (
            f"The words of {counted(memories, 'memory', 'memories')} were indexed by the rules of an earlier "
            "release, so not all of them are found yet. A server reindexes them in the background."
        )
        yield fixable("outdated", message, Level.WARNING)


def unindexed(reader: Reader) -> Finding:
    """Check for memories that lack vectors which no process is computing."""
    coming = reader.vectors.pending(EVERYTHING).memories
    missing = reader.memories.count(EVERYTHING, without_vectors=True) - coming
    if not missing and coming:
        memory = counted(coming, "new memory", "new memories")
        return fine("unindexed", f"A server is computing the vectors of {memory}; all others have theirs.")
    if not missing:
        return fine("unindexed", "Every memory has vectors.")
    lack = "lacks" if missing == 1 else "lack"
    message = f"{counted(missing, 'memory', 'memories')} {lack} vectors and may be found by words only."
    return fixable("unindexed", message, Level.WARNING)


def fingerprint(reader: Reader, indexer: Indexer) -> Finding:
    """Check that the stored vectors are comparable with the model's."""
    present = reader.vectors.fingerprint()
    try:
        reader.vectors.require_current(indexer.fingerprint)
    except EmbeddingUnavailableError as error:
        if indexer.is_ready:
            return problem("fingerprint", str(error))
        return fine("fingerprint", "Not checked: there is no model to compare the vectors with.")
    if present is None:
        return fine("fingerprint", "There are no vectors yet.")
    said = f"The vectors were computed with {present}, the configured model."
    if indexer.keeps_states and reader.upkeep.change.without_states():
        said += " Some passages have no states of their tokens for late interaction: `vector-memory reembed` adds them."
    return fine("fingerprint", said)


def reembedding(reader: Reader) -> Iterator[Finding]:
    """Check for a change of the model that is in progress or was interrupted."""
    if others := reader.upkeep.change.others():
        earlier = ", ".join(str(model.fingerprint) for model in others)
        current = reader.vectors.fingerprint()
        message = f"Recomputing the vectors of {earlier} with {current} is in progress or was interrupted."
        advice = "If no `vector-memory reembed` and no server with the new model is running, run it again."
        yield warning("reembedding", message, advice)


# Rebuilds an open memory's derived data from its texts, for memories of any engine.


def compute_missing(
    storage: Storage, model: EmbeddingModel, indexer: Indexer, wrong: set[str], on_progress: Progress | None
) -> Iterator[str]:
    """Index what is not indexed yet, and compute missing vectors if there is a model; report what was done.

    `wrong`: the names of the findings.
    """
    if "outdated" in wrong:
        yield "Reindexed words from an earlier release."
    try:
        result = Backfill(storage, indexer, Vocabulary(storage, model)).run(on_progress)
    except EmbeddingUnavailableError:
        return
    if result.memories_processed:
        yield f"Computed the vectors of {counted(result.memories_processed, 'memory', 'memories')}."


def rebuild(storage: Storage, indexer: Indexer, translated: Translated, misfiled: Collection[int]) -> str:
    """Remove wrong derived data, and index the words of all memories. Correct chunks keep their ids.

    Memories with damaged text are left alone: their chunks may be all that is left of it. `misfiled`: the memories
    whose vectors have wrong fields. Without a model, vectors stay unchanged.
    """
    with storage.read() as reader:
        comparison = Comparison(reader, indexer, translated, deep=True)
        faults = comparison.faults()
        wrong = faults["chunks"] | faults["passages"] | faults["vectors"] | set(misfiled)
        stripped = sorted(wrong - faults["text"]) if comparison.has_model else []
    with storage.write() as writer:
        portions = writer.upkeep.portions
        lifetimes = portions.lifetimes()
        writer.keywords.clear()  # first: nothing can be removed from a damaged block
        for whole in portions.whole(stripped, bare=True):
            memory = whole.memory
            chunks = [] if memory.id in faults["chunks"] else writer.chunks.of(memory.id)
            writer.delete(memory.id, for_good=False)
            memory = replace(memory, chunk_count=len(chunks))
            portions.add_memories([replace(whole, memory=memory, chunks=chunks)], None)
        portions.set_lifetimes(lifetimes)
        writer.refresh(writer.lifecycle.wrong())
        writer.keywords.fill()
    return "Rebuilt everything derived from the texts."
