"""Copies a memory into an empty one of any engine: bit by bit, with its ids, times and vectors.

The copy is one snapshot. Memories go first, in the order of their ids; each portion is committed, read back and
compared. An interrupted run is continued: what it has copied is compared, and the rest follows. What the source has
lost since is deleted in the target too: the target records its source and up to which id it was copied, and its own
memories get higher ids. The words and links come last, in the one transaction that completes the copy.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from vector_memory.domain import STORED, Scope
from vector_memory.domain.text import without_nul
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError, ValidationError
from vector_memory.settings import DEFAULT_DIM, MemoryAddress
from vector_memory.storage.base import Reader, Storage, WholeMemory
from vector_memory.storage.opening import open_storage
from vector_memory.storage.queries.keywords import WordBlock
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import CanonicalTag, Link, TagVectors
from vector_memory.upkeep.backfill import EVERYTHING, Progress
from vector_memory.writing.writer import hash_of

MEMORIES_AT_ONCE = 200
BLOCKS_AT_ONCE = 50
LINKS_AT_ONCE = 10_000

OTHERS = (
    "The target has memories that the source does not have. Copy into an empty memory, or continue a copy of the same "
    "source."
)
LACKS = "Memories of the source were deleted in the target. Delete them in the source, or start with an empty target."
IN_USE = "Another process stores memories in the target: end it, then start again with an empty target."
OTHER_VECTORS = (
    "The target was created for another model, so the vectors of the source cannot be stored there: choose a target "
    "that does not exist yet."
)
UNEQUAL = "The target does not return what was written: check its disk, then start again with an empty target."


class CopiedMemories(NamedTuple):
    """The number of memories that the target has now, and how many of them this run has written.

    `nul_characters`: those in texts of the original server that became U+FFFD. `removed`: memories that the source has
    lost.
    """

    memories: int
    written: int
    nul_characters: int = 0
    removed: int = 0


def copy_all(
    source_at: MemoryAddress, target_at: MemoryAddress, shown: Callable[[str], AbstractContextManager[Progress]]
) -> CopiedMemories:
    """Copy a memory; a new target gets vectors of the same length. `shown`: shows the progress of a part."""
    with closing(open_storage(source_at, dimensions=DEFAULT_DIM, read_only=True)) as source:
        with source.read() as reader:
            dimensions = reader.vectors.dimensions
        with closing(open_storage(target_at, dimensions=dimensions)) as target, copying(source, target) as running:
            with shown("Memories") as update:
                copied = running.copy_memories(update)
            with shown("Words") as update:
                running.complete(update)
    return copied


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
        self._fingerprint = source.vectors.fingerprint()
        self._origin = source.upkeep.portions.copied_from()
        self._last_copied = self._newest = 0

    def copy_memories(self, on_progress: Progress | None = None) -> CopiedMemories:
        """Write memories that the target lacks or has in an older state; delete those that the source has lost.

        Raises ValidationError if the target has other memories, or if its vectors are of another model.
        """
        self._require_comparable()
        lost = self._lost()
        total, done, written, replaced, last_id = self._source.memories.count(EVERYTHING), 0, 0, 0, 0
        while memories := self._source.upkeep.portions.memories(last_id, MEMORIES_AT_ONCE):
            replaced += sum(whole.memory.content.count("\0") for whole in memories)
            written += self._copy(list(map(with_storable_text, memories)))
            done, last_id = done + len(memories), memories[-1].memory.id
            if on_progress is not None:
                on_progress(done, total)
        for start in range(0, len(lost), MEMORIES_AT_ONCE):
            with self._target.write() as writer:
                for number in lost[start : start + MEMORIES_AT_ONCE]:
                    writer.delete(number, for_good=False)
        if lost:
            self._target.purge_deleted()
        return CopiedMemories(done, written, replaced, len(lost))

    def complete(self, on_progress: Progress | None = None) -> None:
        """Write lifetimes, traces, the index of words and the tags; from then on, assign only higher ids."""
        if self._is_complete():
            return
        tags, total, done = self._tags(), self._source.memories.count(EVERYTHING), 0
        with self._target.write() as writer:
            portions = writer.upkeep.portions
            writer.keywords.clear()
            for blocks in self._blocks(self._source.upkeep.portions):
                portions.add_blocks(blocks)
                done += sum(len(block.contents.spans()) for block in blocks)
                if on_progress is not None:
                    on_progress(done, total)
            portions.set_lifetimes(self._source.upkeep.portions.lifetimes())
            writer.set_deletions(self._source.deletions.get_all())
            writer.remove_links()
            for links in links_in(self._source):
                writer.add_links(links)
            portions.set_copied_from(self._origin.memory, self._source.last_ids().memory)
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
                reader.vectors.require_current(self._fingerprint)
        except EmbeddingUnavailableError:
            raise ValidationError(OTHER_VECTORS) from None

    def _lost(self) -> list[int]:
        """Return the copied memories that the source has lost since.

        Raises ValidationError if the target has others, or has lost memories itself, unless these have expired.
        """
        with self._target.read() as reader:
            theirs, known = reader.memories.ids(EVERYTHING), reader.upkeep.portions.copied_from()
        mine, own = self._source.memories.ids(EVERYTHING), self._origin
        if known.source == own.memory:
            self._last_copied = known.last_copied
        if own.source == known.memory:  # the source is a copy of the target
            self._last_copied = max(self._last_copied, own.last_copied)
        self._newest = max(theirs, default=0)
        lost = sorted(set(theirs).difference(mine))
        given, gaps = min(self._last_copied, self._source.last_ids().memory), self._source.cursor().gaps
        if any(number > given or any(number in gap for gap in gaps) for number in lost):
            raise ValidationError(OTHERS)
        deleted = set(mine).difference(theirs, self._source.lifecycle.expired(len(mine)))
        if any(number <= max(self._last_copied, self._newest) for number in deleted):
            raise ValidationError(LACKS)
        return lost

    def _copy(self, memories: Sequence[WholeMemory]) -> int:
        """Write the memories of a portion that are missing or differ; return their number."""
        numbers = [whole.memory.id for whole in memories]
        stored = {other.memory.id: other for other in self._stored(numbers)}
        if not all(mine.is_same(stored[mine.memory.id]) for mine in memories if mine.memory.id in stored):
            raise ValidationError(OTHERS)
        missing = [mine for mine in memories if mine.memory.id not in stored]
        wrong = [mine for mine in memories if (other := stored.get(mine.memory.id)) and not mine.equals(other)]
        if not (wrong or missing):
            return 0
        last_id = max(self._last_copied, numbers[-1])
        with self._target.write() as writer:
            portions = writer.upkeep.portions
            if missing and writer.memories.ids(Scope(after_id=self._newest, as_of=STORED)):
                raise ValidationError(IN_USE)
            for whole in wrong:
                writer.delete(whole.memory.id, for_good=False)
            portions.add_memories([*wrong, *missing], self._fingerprint)
            portions.set_copied_from(self._origin.memory, last_id)
        self._last_copied, self._newest = last_id, max(self._newest, numbers[-1])
        written = self._stored(numbers)
        if len(written) != len(memories) or not all(map(WholeMemory.equals, memories, written)):
            raise DatabaseError(UNEQUAL)
        return len(wrong) + len(missing)

    def _stored(self, memory_ids: Sequence[int]) -> list[WholeMemory]:
        with self._target.read() as reader:
            return reader.upkeep.portions.whole(memory_ids)

    def _is_complete(self) -> bool:
        with self._target.read() as reader:
            mine, theirs = self._source.upkeep.portions, reader.upkeep.portions
            tags, copied = self._tags(), reader.tags.vectors_of(self._dimensions)
            known, last_ids = theirs.copied_from(), self._source.last_ids()
            return (
                known[1:] == (self._origin.memory, last_ids.memory)
                and all(own <= other for own, other in zip(last_ids, reader.last_ids(), strict=True))
                and ordered_tags(self._source, tags) == ordered_tags(reader, copied)
                and np.array_equal(tags.vectors, copied.vectors)
                and mine.lifetimes() == theirs.lifetimes()
                and self._source.deletions.get_all() == reader.deletions.get_all()
                and all(own == other for own, other in zip_longest(self._blocks(mine), self._blocks(theirs)))
                and all(own == other for own, other in zip_longest(links_in(self._source), links_in(reader)))
            )

    @property
    def _dimensions(self) -> int:
        return 1 if self._fingerprint is None else self._fingerprint.dimensions

    def _tags(self) -> TagVectors:
        return self._source.tags.vectors_of(self._dimensions)

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
    while links := reader.links.after(last, LINKS_AT_ONCE):
        yield links
        last = links[-1].older_id, links[-1].newer_id


def ordered_tags(reader: Reader, tags: TagVectors) -> list[CanonicalTag]:
    """Return the canonical tags, oldest first."""
    by_name = {tag.tag: tag for tag in reader.tags.canonical()}
    return [by_name[tag] for tag in tags.tags]
