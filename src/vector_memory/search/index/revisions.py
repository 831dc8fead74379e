"""How far the loaded units are behind a revision of the file, and how they catch up with it."""

from dataclasses import replace
from operator import gt

import numpy as np

from vector_memory.errors import DatabaseError
from vector_memory.search.index.signatures import Passages
from vector_memory.search.index.units import Units
from vector_memory.storage.queries.feed import IndexedMemory, IndexFeed, Revision

MAX_BEHIND = 4_096
"""Memories, chunks or passages that a search itself reads if they are new; more are read in the background."""


def is_same_epoch(feed: IndexFeed, units: Units) -> bool:
    """Return whether the units are of the snapshot's epoch."""
    return feed.revision().epoch == units.revision.epoch


def is_behind(passages: Passages, revision: Revision) -> bool:
    """Return whether the revision is newer than what is loaded."""
    return passages.last_id < revision.last_passage_id or is_later(revision, passages.units.revision)


def is_later(revision: Revision, known: Revision) -> bool:
    """Return whether memories or chunks were added or removed since the known revision, which has the same epoch."""
    return any(map(gt, revision[1:4], known[1:4]))


def is_far_behind(passages: Passages, revision: Revision) -> bool:
    """Return whether everything loaded is invalid, or too much is new to be read during a search."""
    known = passages.units.revision
    return (
        known.epoch != revision.epoch
        or revision.last_passage_id - passages.last_id > MAX_BEHIND
        or max(revision.last_memory_id - known.last_memory_id, revision.last_chunk_id - known.last_chunk_id)
        > MAX_BEHIND
    )


def updated_units(feed: IndexFeed, units: Units, revision: Revision) -> Units:
    """Return the units as of this revision, or unchanged if it is not later.

    Raises DatabaseError if the keyword index does not match the memories.
    """
    known = units.revision
    if not is_later(revision, known):
        return units
    again = feed.memories_with_chunks_after(known.last_chunk_id, known.last_memory_id)
    units = units.without([memory.memory_id for memory in again])
    units = extended_units(feed, units, again, revision)
    last_id = known.last_memory_id
    while memories := feed.memories_after(last_id, MAX_BEHIND):
        units = extended_units(feed, units, memories, revision)
        last_id = memories[-1].memory_id
    if revision.removals > known.removals or not known.last_memory_id:
        there = feed.memory_ids()
        units = units.without(np.setdiff1d(units.present(), there).tolist())
        if len(units.present()) != len(there):
            raise DatabaseError("The keyword index does not match the memories: run `vector-memory doctor --fix`.")
    return replace(units, revision=revision)


def extended_units(feed: IndexFeed, units: Units, memories: list[IndexedMemory], revision: Revision) -> Units:
    """Return the units, extended by those of further memories."""
    return units.extended(memories, feed.chunks_of([memory.memory_id for memory in memories]), revision)
