"""What a process keeps of a memory in memory: derived from it in the background, and caught up with it in time.

A search compares the revision of its own snapshot with that of the index, reads the memories, units and passages that
are not known here, and learns which are gone. When the index is not loaded, or cannot show the revision that the
snapshot sees, it does not answer, and the storage engine does.
"""

import contextlib
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vector_memory.domain import Scope
from vector_memory.errors import ClosedMemoryError, DatabaseError, VectorMemoryError, where
from vector_memory.search.index.signatures import Held, Passages, View
from vector_memory.search.index.units import Units
from vector_memory.storage.base import Storage
from vector_memory.storage.ranking import IndexedMemory, IndexFeed, Revision

logger = logging.getLogger(__name__)

STEP = 4_096
"""So many passages are read in one transaction of the background, and at most during a search."""

HELD_BYTES = 84_000_000
"""Vectors kept in memory: 54,687 of 384 numbers. A scope among so many is compared completely."""

LEAST_ROOM = 100
"""The smallest sessions count as so many passages, so that not too many are held."""

RETRY_SECONDS = 60.0
"""After a failure the tables answer for so long before the file is read again."""

STOP_SECONDS = 0.5


class PassageIndex:
    """Loads and keeps what `View` answers from. Safe to use from several threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._loader: threading.Thread | None = None
        self.is_used = False
        """Whether loading was ever started: until then the storage engine answers."""
        self._failed_at = -math.inf
        self._passages: Passages | None = None
        self._held: OrderedDict[str | None, Held] = OrderedDict()
        """By session, the latest used at the end; by None if it is the whole file."""

    def start_loading(self) -> None:
        """Load, or catch up, in the background, and from now on whenever it is needed; returns at once."""
        with self._starting:
            self.is_used = True
            if not self._stopping.is_set() and (self._loader is None or not self._loader.is_alive()):
                loader = threading.Thread(target=self._load, name="passage-index", daemon=True)
                loader.start()
                self._loader = loader  # only now: `close` cannot join a thread that has not been started

    def wait_for_loading(self) -> None:
        """Wait until what is being loaded is loaded."""
        if self._loader is not None:
            self._loader.join()

    def close(self) -> None:
        """Stop loading."""
        self._stopping.set()
        if self._loader is not None:
            self._loader.join(STOP_SECONDS)

    def view(self, feed: IndexFeed | None) -> View | None:
        """Return what answers for the snapshot of the feed; None: the storage engine has to."""
        if feed is None or time.monotonic() < self._failed_at + RETRY_SECONDS:
            return None
        revision, passages = feed.revision(), self._passages
        if passages is None or is_far_behind(passages, revision):
            self.start_loading()
            return None
        if is_behind(passages, revision):
            with self._lock, self._failures_noted():
                passages = self._passages
                if passages is None or is_far_behind(passages, revision):
                    return None
                passages = self._catch_up(feed, passages, revision)
        if passages.last_id < revision.last_passage_id:
            return None
        units = passages.units if passages.units.revision[:4] == revision[:4] else passages.units.as_of(revision)
        return None if units is None else View(self, feed, passages, units, revision.last_passage_id)

    def held(self, view: View, scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""
        room = HELD_BYTES // (4 * view.passages.dimensions)
        is_whole = view.passages.count <= room
        if not is_whole and scope.session_id is None:
            return None
        key = None if is_whole else scope.session_id
        held = self._known(view, key)
        if held is None or held.until < view.count:
            with self._reading:
                held = self._known(view, key)
                if held is None or held.until < view.count:
                    held = self._read(view, key, held, room)
        return held if held is None or held.count <= room else None

    def _known(self, view: View, session_id: str | None) -> Held | None:
        with self._lock:
            if self._of_same_epoch(view) is None or session_id not in self._held:
                return None
            self._held.move_to_end(session_id)
            return self._held[session_id]

    def _read(self, view: View, session_id: str | None, known: Held | None, room: int) -> Held | None:
        """Read the vectors of a session, or of the whole file, beyond the known ones; None: they are too many.

        What others have stored meanwhile, this snapshot cannot read. The vectors are kept all the same: otherwise
        many searches beside many stores would all read everything, one after another.
        """
        passages = view.passages
        rows = view.visible(passages.rows_in(session_id, known.until if known else 0))
        if len(rows) + (known.count if known else 0) > room:
            return None
        held = known or Held.with_room(len(rows), passages.dimensions)
        for start in range(0, len(rows), STEP):
            ids, vectors = view.feed.vectors(passages.ids[rows[start : start + STEP]].tolist())
            held = held.extended(passages.rows_of(ids), vectors, held.until)
        held = replace(held, until=view.count)
        with self._lock:
            if self._of_same_epoch(view) is not None:
                self._keep(session_id, held, room)
        return held

    def _of_same_epoch(self, view: View) -> Passages | None:
        """Return what is known now, unless all of it has become void since."""
        current = self._passages
        is_same = current is not None and current.units.revision.epoch == view.units.revision.epoch
        return current if is_same else None

    def _keep(self, session_id: str | None, held: Held, room: int) -> None:
        """Keep the vectors of a session; those that were not used for longest make room. The lock is held."""
        self._held.pop(session_id, None)
        while self._held and sum(max(other.count, LEAST_ROOM) for other in self._held.values()) > room - held.count:
            self._held.popitem(last=False)
        self._held[session_id] = held

    def _load(self) -> None:
        more = True
        while more and not self._stopping.is_set():
            more = False
            # In this order: a snapshot is not held while waiting for searches.
            with self._failures_noted(), self._lock, self._storage.read() as reader:
                more = reader.feed is not None and self._load_some(reader.feed)

    def _load_some(self, feed: IndexFeed) -> bool:
        """Read all units that are not known yet and at most STEP passages; tell whether there are more."""
        revision, passages = feed.revision(), self._passages
        if passages is None or passages.units.revision.epoch != revision.epoch:
            self._passages = None
            self._held.clear()
            passages = Passages.empty(Units.empty(revision.epoch), feed.dimensions())
        return self._catch_up(feed, passages, revision).last_id < revision.last_passage_id

    @contextlib.contextmanager
    def _failures_noted(self) -> Iterator[None]:
        """Let the storage engine answer for a while when the memory cannot be read into the index."""
        try:
            yield
        except ClosedMemoryError:  # nobody will search any more
            return
        except Exception as error:  # whatever it is, it may not end the thread, nor the search that meets it
            self._failed_at = time.monotonic()
            reason = error if isinstance(error, VectorMemoryError) else where(error)
            logger.warning("Searches are slower for now: the in-memory index was not loaded. %s", reason)

    def _catch_up(self, feed: IndexFeed, passages: Passages, revision: Revision) -> Passages:
        """Read units, and at most STEP passages, that are not known yet, if this one is later. The lock is held."""
        units = caught_up(feed, passages.units, revision)
        passages = passages if units is passages.units else passages.with_units(units)
        if passages.last_id < revision.last_passage_id:
            passages = self._with_passages(feed, passages, revision.last_passage_id)
        self._passages = passages
        return passages

    def _with_passages(self, feed: IndexFeed, known: Passages, last_id: int) -> Passages:
        new = feed.passages_after(known.last_id, STEP)
        ids, vectors = feed.vectors([passage.id for passage in new])
        readable = set(ids.tolist())
        last = new[-1].id if len(new) == STEP else last_id
        extended = known.extended([passage for passage in new if passage.id in readable], vectors, last)
        for session_id, held in self._held.items():
            if held.until == known.count:  # what lacks more is read when it is searched
                rows = extended.rows_in(session_id, known.count)
                self._held[session_id] = held.extended(rows, vectors[rows - known.count], extended.count)
        return extended


def is_behind(passages: Passages, revision: Revision) -> bool:
    """Tell whether the revision has something that is not known, or lacks something that is."""
    return passages.last_id < revision.last_passage_id or is_later(revision, passages.units.revision)


def is_later(revision: Revision, known: Revision) -> bool:
    """Tell whether memories or chunks have come or gone since the known revision, of the same epoch."""
    return any(new > old for new, old in zip(revision[1:4], known[1:4], strict=True))


def is_far_behind(passages: Passages, revision: Revision) -> bool:
    """Tell whether all that is known is void, or so much has come since that the background has to read it."""
    known = passages.units.revision
    return (
        known.epoch != revision.epoch
        or revision.last_passage_id - passages.last_id > STEP
        or max(revision.last_memory_id - known.last_memory_id, revision.last_chunk_id - known.last_chunk_id) > STEP
    )


def caught_up(feed: IndexFeed, units: Units, revision: Revision) -> Units:
    """Return the units as they are in this revision, or as they are given if that is not later.

    Raises DatabaseError if the units are not those of the indexed memories.
    """
    known = units.revision
    if not is_later(revision, known):
        return units
    again = feed.memories_with_chunks_after(known.last_chunk_id, known.last_memory_id)
    units = units.without([memory.memory_id for memory in again])
    units = with_memories(feed, units, again, revision)
    last_id = known.last_memory_id
    while memories := feed.memories_after(last_id, STEP):
        units = with_memories(feed, units, memories, revision)
        last_id = memories[-1].memory_id
    if revision.removals > known.removals or not known.last_memory_id:
        there = feed.memory_ids()
        units = units.without(np.setdiff1d(units.present(), there).tolist())
        if len(units.present()) != len(there):
            raise DatabaseError("The keyword index belongs to other memories: run `vector-memory doctor --fix`.")
    return replace(units, revision=revision)


def with_memories(feed: IndexFeed, units: Units, memories: list[IndexedMemory], revision: Revision) -> Units:
    """Return the units with those of further memories."""
    return units.extended(memories, feed.chunks_of([memory.memory_id for memory in memories]), revision)
