"""Copies a memory into an empty one of any engine: bit by bit, with its ids, times and vectors.

What is copied is one snapshot. Memories go first, in the order of their ids; each portion is committed, read back and
compared. A run that was interrupted is continued: what it has copied is compared, and the rest follows. The words and
links come last, in the one transaction that completes the copy.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from vector_memory.domain import STORED, Scope
from vector_memory.domain.text import without_nul
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError, ValidationError
from vector_memory.maintenance.backfill import Progress
from vector_memory.sessions.writer import hash_of
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.storage.queries.portions import Portions, WordBlock
from vector_memory.storage.records import CanonicalTag, Link, TagVectors

MEMORIES_AT_ONCE = 200
BLOCKS_AT_ONCE = 50
LINKS_AT_ONCE = 10_000

OTHERS = (
    "The target has memories that the source does not have. Copy into an empty memory, or continue a copy of the same "
    "source."
)
IN_USE = "Another process stores memories in the target: end it, then start again with an empty target."
OTHER_VECTORS = (
    "The target was created for another model, so the vectors of the source cannot be stored there: choose a target "
    "that does not exist yet."
)
UNEQUAL = "The target does not return what was written: check its disk, then start again with an empty target."


class CopiedMemories(NamedTuple):
    """The number of memories that the target has now, and how many of them this run has written.

    `nul_characters`: those in texts of the original server that became U+FFFD.
    """

    memories: int
    written: int
    nul_characters: int = 0


@contextmanager
def copying(source: Storage, target: Storage) -> Iterator["Copying"]:
    """Yield the copying of a snapshot of the source, which lasts as long as the block."""
    with source.read() as reader:
        yield Copying(reader, target)


class Copying:
    """Copies what a reader sees: first `copy_memories`, then `complete`."""

    def __init__(self, source: Reader, target: Storage) -> None:
        self._source = source
        self._target = target
        self._fingerprint = source.fingerprint()

    def copy_memories(self, on_progress: Progress | None = None) -> CopiedMemories:
        """Write the memories that the target does not have yet, or not as they are now.

        Raises ValidationError if the target has other memories, or if its vectors are of another model.
        """
        self._require_comparable()
        total, done, written, replaced, last_id = self._source.count(Scope(as_of=STORED)), 0, 0, 0, 0
        while memories := self._source.upkeep.portions.memories(last_id, MEMORIES_AT_ONCE):
            replaced += sum(whole.memory.content.count("\0") for whole in memories)
            written += self._copy(list(map(with_storable_text, memories)), last_id)
            done, last_id = done + len(memories), memories[-1].memory.id
            if on_progress is not None:
                on_progress(done, total)
        if self._stored(last_id, 1):
            raise ValidationError(OTHERS)
        return CopiedMemories(done, written, replaced)

    def complete(self, on_progress: Progress | None = None) -> None:
        """Write how long memories are current, the index of words and the tags, and let only higher ids be given."""
        if self._is_complete():
            return
        tags, total, done = self._tags(), self._source.count(Scope(as_of=STORED)), 0
        with self._target.write() as writer:
            portions = writer.upkeep.portions
            writer.keywords.clear()
            for blocks in self._blocks(self._source.upkeep.portions):
                portions.add_blocks(blocks)
                done += sum(len(block.contents.spans()) for block in blocks)
                if on_progress is not None:
                    on_progress(done, total)
            portions.set_lifetimes(self._source.upkeep.portions.lifetimes())
            writer.remove_links()
            for links in links_in(self._source):
                writer.add_links(links)
            portions.finish(self._source.last_ids(), ordered_tags(self._source, tags))
            if self._fingerprint is not None:
                vectors = zip(tags.tags, tags.vectors, strict=True)
                writer.set_tag_vectors({tag: vector for tag, vector in vectors if vector.any()}, self._fingerprint)
        if not self._is_complete():
            raise DatabaseError(UNEQUAL)

    def _require_comparable(self) -> None:
        if self._fingerprint is None:
            return
        try:
            with self._target.read() as reader:
                reader.require_comparable(self._fingerprint)
        except EmbeddingUnavailableError:
            raise ValidationError(OTHER_VECTORS) from None

    def _copy(self, memories: Sequence[WholeMemory], after_id: int) -> int:
        """Write the memories of a portion that are missing or differ; return their number."""
        stored = self._stored(after_id, len(memories))
        # zip: the target may have fewer, if it has no memory after the last of them.
        if not all(mine.is_same(other) for mine, other in zip(memories, stored, strict=False)):
            raise ValidationError(OTHERS)
        wrong = [mine for mine, other in zip(memories, stored, strict=False) if not mine.equals(other)]
        missing = memories[len(stored) :]
        if not (wrong or missing):
            return 0
        with self._target.write() as writer:
            portions = writer.upkeep.portions
            last_id = stored[-1].memory.id if stored else after_id
            if missing and portions.memories(last_id, 1):
                raise ValidationError(IN_USE)
            for whole in wrong:
                writer.delete(whole.memory.id)
            portions.add_memories([*wrong, *missing], self._fingerprint)
        written = self._stored(after_id, len(memories))
        if len(written) != len(memories) or not all(map(WholeMemory.equals, memories, written)):
            raise DatabaseError(UNEQUAL)
        return len(wrong) + len(missing)

    def _stored(self, after_id: int, limit: int) -> list[WholeMemory]:
        with self._target.read() as reader:
            return reader.upkeep.portions.memories(after_id, limit)

    def _is_complete(self) -> bool:
        with self._target.read() as reader:
            mine, theirs = self._source.upkeep.portions, reader.upkeep.portions
            tags, copied = self._tags(), reader.tag_vectors(self._dimensions)
            return (
                all(own <= other for own, other in zip(self._source.last_ids(), reader.last_ids(), strict=True))
                and ordered_tags(self._source, tags) == ordered_tags(reader, copied)
                and np.array_equal(tags.vectors, copied.vectors)
                and mine.lifetimes() == theirs.lifetimes()
                and all(own == other for own, other in zip_longest(self._blocks(mine), self._blocks(theirs)))
                and all(own == other for own, other in zip_longest(links_in(self._source), links_in(reader)))
            )

    @property
    def _dimensions(self) -> int:
        return 1 if self._fingerprint is None else self._fingerprint.dimensions

    def _tags(self) -> TagVectors:
        return self._source.tag_vectors(self._dimensions)

    def _blocks(self, portions: Portions) -> Iterator[list[WordBlock]]:
        last_id = 0
        while blocks := portions.blocks(last_id, BLOCKS_AT_ONCE):
            yield blocks
            last_id = blocks[-1].id


def with_storable_text(whole: WholeMemory) -> WholeMemory:
    """Return a memory whose texts every engine stores."""
    memory = whole.memory
    if "\0" not in memory.content:
        return whole
    content = without_nul(memory.content)
    chunks = [replace(one, chunk=replace(one.chunk, text=without_nul(one.chunk.text))) for one in whole.chunks]
    return replace(whole, memory=replace(memory, content=content, content_hash=hash_of(content)), chunks=chunks)


def links_in(reader: Reader) -> Iterator[list[Link]]:
    """Yield all links in portions."""
    last = 0, 0
    while links := reader.links(last, LINKS_AT_ONCE):
        yield links
        last = links[-1].older_id, links[-1].newer_id


def ordered_tags(reader: Reader, tags: TagVectors) -> list[CanonicalTag]:
    """Return the canonical tags, oldest first."""
    by_name = {tag.tag: tag for tag in reader.canonical_tags()}
    return [by_name[tag] for tag in tags.tags]
