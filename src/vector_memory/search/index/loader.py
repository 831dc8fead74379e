"""Loads the in-memory index in the background, and keeps it up to date.

A search compares the revision of its snapshot with that of the index, and reads the memories, units and passages that
are new, or removes those that were deleted. If the index is not loaded, or cannot show the revision of the snapshot,
the storage engine answers instead.
"""

import contextlib
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from vector_memory.domain import Scope
from vector_memory.errors import ClosedMemoryError, VectorMemoryError, where
from vector_memory.search.index.bm25 import blocks_of, wanted_of
from vector_memory.search.index.common import CommonWords
from vector_memory.search.index.lists import PostingLists
from vector_memory.search.index.revisions import is_behind, is_far_behind, is_same_epoch, updated_units
from vector_memory.search.index.signatures import CachedVectors, Passages, View
from vector_memory.search.index.sketch import coverable
from vector_memory.search.index.units import Units
from vector_memory.storage.base import Storage
from vector_memory.storage.postings import postings_in
from vector_memory.storage.queries.feed import IndexFeed, Revision

logger = logging.getLogger(__name__)

PASSAGES_PER_READ = 4_096
"""Passages read in one transaction by the background thread, and at most during a search."""

MAX_CACHED_BYTES = 84_000_000
"""Size of the vector cache: 54,687 vectors of 384 numbers. A scope within it is compared exactly."""

MAX_LATEST_PASSAGES = 4_096
"""Passages of the latest sessions whose vectors are read before anybody searches there."""

MIN_CACHED_SIZE = 100
"""Number of passages that a smaller session counts as, to limit the number of cached sessions."""

BLOCKS_PER_READ = 32
"""Blocks whose words are read in one transaction by the background thread."""

RETRY_SECONDS = 60.0
"""After a failure, the storage engine answers for this long before the index is loaded again."""

STOP_SECONDS = 0.5


class PassageIndex:
    """Loads and updates the data of a `View`. Safe to use from several threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._loader: threading.Thread | None = None
        self.is_used = False
        """Whether loading was ever started. Until then the storage engine answers."""
        self._failed_at = -math.inf
        self._passages: Passages | None = None
        self._cached: OrderedDict[str | None, CachedVectors] = OrderedDict()
        """By session, the most recently used last; None is the key if it is the whole file."""

    def start_loading(self) -> None:
        """Start loading or updating in the background, and return at once. Searches also start it from now on."""
        with self._starting:
            self.is_used = True
            if not self._stopping.is_set() and (self._loader is None or not self._loader.is_alive()):
                loader = threading.Thread(target=self._load, name="passage-index", daemon=True)
                loader.start()
                self._loader = loader  # set afterwards: `close` cannot join a thread that has not been started

    def wait_for_loading(self) -> None:
        """Wait until the background thread has finished."""
        if self._loader is not None:
            self._loader.join()

    def close(self) -> None:
        """Stop loading. Waits at most STOP_SECONDS."""
        self._stopping.set()
        if self._loader is not None:
            self._loader.join(STOP_SECONDS)

    def view(self, feed: IndexFeed) -> View | None:
        """Return a view of the feed's snapshot; None: the storage engine has to answer."""
        if time.monotonic() < self._failed_at + RETRY_SECONDS or not feed.is_settled():
            return None
        revision, passages = feed.revision(), self._passages
        if passages is None or is_far_behind(passages, revision):
            self.start_loading()
            return None
        if is_behind(passages, revision):
            with self._lock, self._failures_logged():
                passages = self._passages
                if passages is None or is_far_behind(passages, revision):
                    return None
                passages = self._catch_up(feed, passages, revision)
        if passages.last_id < revision.last_passage_id:
            return None
        if passages.units.sketch.lags_behind(passages.units.memory_count):
            self.start_loading()
        units = passages.units if passages.units.revision[:4] == revision[:4] else passages.units.as_of(revision)
        return None if units is None else View(self, feed, passages, units, revision.last_passage_id)

    def read_ahead(self, feed: IndexFeed, scope: Scope, terms: Sequence[str]) -> None:
        """Let the feed read the postings for which a search of the scope will probably ask it.

        The revision of its snapshot is not known yet. If it is another one, the search asks for something else.
        """
        passages = self._passages
        if passages is not None and passages.units.knows(scope):
            units = passages.units
            feed.read_ahead(lambda: wanted_of(units, units.members(scope), terms))

    def cached(self, view: View, scope: Scope) -> CachedVectors | None:
        """Return vectors that include those of a scope, reading them if necessary; None: there are too many."""
        room = MAX_CACHED_BYTES // (4 * view.passages.dimensions)
        is_whole = view.passages.count <= room
        if not is_whole and scope.session_id is None:
            return None
        key = None if is_whole else scope.session_id
        cached = self._known(view, key)
        if cached is None or cached.until < view.count:
            with self._reading:
                cached = self._known(view, key)
                if cached is None or cached.until < view.count:
                    cached = self._read(view, key, cached, room)
        return cached if cached is None or cached.count <= room else None

    def _known(self, view: View, session_id: str | None) -> CachedVectors | None:
        with self._lock:
            if self._of_same_epoch(view) is None or session_id not in self._cached:
                return None
            self._cached.move_to_end(session_id)
            return self._cached[session_id]

    def _read(self, view: View, session_id: str | None, known: CachedVectors | None, room: int) -> CachedVectors | None:
        """Read the vectors of a session, or of the whole file, that are not cached; None: there are too many.

        This snapshot cannot read what others have stored since, but its vectors are cached anyway. Otherwise searches
        that run while many memories are stored would all read everything again.
        """
        passages = view.passages
        rows = view.visible(passages.rows_in(session_id, known.until if known else 0))
        if len(rows) + (known.count if known else 0) > room:
            return None
        cached = known or CachedVectors.with_capacity(len(rows), passages.dimensions)
        for start in range(0, len(rows), PASSAGES_PER_READ):
            ids, vectors = view.feed.vectors(passages.ids[rows[start : start + PASSAGES_PER_READ]].tolist())
            cached = cached.extended(passages.rows_of(ids), vectors, cached.until)
        cached = replace(cached, until=view.count)
        with self._lock:
            if self._of_same_epoch(view) is not None:
                self._keep(session_id, cached, room)
        return cached

    def _of_same_epoch(self, view: View) -> Passages | None:
        """Return the current passages, unless they belong to another epoch than the view."""
        current = self._passages
        is_same = current is not None and current.units.revision.epoch == view.units.revision.epoch
        return current if is_same else None

    def _keep(self, session_id: str | None, cached: CachedVectors, room: int) -> None:
        """Cache the vectors of a session, and evict the least recently used ones. The caller holds the lock."""
        self._cached.pop(session_id, None)
        while (
            self._cached
            and sum(max(other.count, MIN_CACHED_SIZE) for other in self._cached.values()) > room - cached.count
        ):
            self._cached.popitem(last=False)
        self._cached[session_id] = cached

    def _load(self) -> None:
        more = True
        while more and not self._stopping.is_set():
            more = False
            # In this order: searches that wait for the lock may have all connections. A snapshot begins later.
            with self._failures_logged(), self._storage.read() as reader, self._lock:
                more = reader.feed.is_settled() and self._load_some(reader.feed)
        self._sketch_words()
        self._read_latest_vectors()

    def _read_latest_vectors(self) -> None:
        """Cache the vectors of the whole file if they fit, or else of the latest sessions, for their first searches."""
        with self._failures_logged(), self._storage.read() as reader:
            view = None if self._stopping.is_set() else self.view(reader.feed)
            if view is None or self.cached(view, Scope()) is not None:
                return
            room = MAX_LATEST_PASSAGES
            for session_id in view.units.latest_sessions():
                room -= len(view.passages.rows_in(session_id))
                if room < 0 or self._stopping.is_set():
                    return
                self.cached(view, Scope(session_id=session_id))

    def _sketch_words(self) -> None:
        """Add the memories that the sketch of words does not cover to it, if there are many.

        The first sketch of a file reads all of its postings, so those of the most common words are cached.
        """
        known = self._passages
        if known is None or not known.units.sketch.lags_behind(known.units.memory_count):
            return
        units, sketch, common = known.units, known.units.sketch, None
        blocks = blocks_of(units, np.arange(sketch.memory_count, units.memory_count))
        later = coverable(blocks)
        reads_all = sketch.memory_count == 1 and len(later) == len(blocks)
        with self._failures_logged():
            for start in range(0, len(later), BLOCKS_PER_READ):
                with self._storage.read() as reader:
                    if self._stopping.is_set() or not is_same_epoch(reader.feed, units):
                        return
                    if reads_all:
                        common = common or CommonWords(reader.feed, units, later)
                    read = later[start : start + BLOCKS_PER_READ]
                    owners, keys, places, counts = postings_in(read, reader.feed.read_postings)
                sketch.add(read, owners, keys)
                if common is not None:
                    common.add(keys, places, counts)
            with self._storage.read() as reader, self._lock:
                current = self._passages
                if current is not None and is_same_epoch(reader.feed, units):
                    # What was deleted meanwhile is missing: no view of an earlier revision may use what was made.
                    passages = self._catch_up(reader.feed, current, reader.feed.revision())
                    cache = passages.units.postings
                    if common is not None:
                        cache = PostingLists({**common.lists(), **cache.most_recent()})
                    covered = replace(passages.units, sketch=sketch.covering(units.memory_count), postings=cache)
                    self._passages = passages.with_units(covered)

    def _load_some(self, feed: IndexFeed) -> bool:
        """Read all new units and at most PASSAGES_PER_READ passages; return whether there are more."""
        revision, passages = feed.revision(), self._passages
        if passages is None or passages.units.revision.epoch != revision.epoch:
            self._passages = None
            self._cached.clear()
            passages = Passages.empty(Units.empty(revision.epoch), feed.dimensions())
        return self._catch_up(feed, passages, revision).last_id < revision.last_passage_id

    @contextlib.contextmanager
    def _failures_logged(self) -> Iterator[None]:
        """Log an error, and let the storage engine answer for RETRY_SECONDS."""
        try:
            yield
        except ClosedMemoryError:  # there will be no more searches
            return
        except Exception as error:  # no error may end the thread or a search
            self._failed_at = time.monotonic()
            reason = error if isinstance(error, VectorMemoryError) else where(error)
            logger.warning("Searches are slower for now: the in-memory index was not loaded. %s", reason)

    def _catch_up(self, feed: IndexFeed, passages: Passages, revision: Revision) -> Passages:
        """Read new units and at most PASSAGES_PER_READ new passages, if the revision is later.

        The caller holds the lock.
        """
        units = updated_units(feed, passages.units, revision)
        passages = passages if units is passages.units else passages.with_units(units)
        if passages.last_id < revision.last_passage_id:
            passages = self._with_passages(feed, passages, revision.last_passage_id)
        self._passages = passages
        return passages

    def _with_passages(self, feed: IndexFeed, known: Passages, last_id: int) -> Passages:
        # The others are completed when they are searched.
        complete = {key: cached for key, cached in self._cached.items() if cached.until == known.count}
        new = feed.passages_after(known.last_id, PASSAGES_PER_READ, with_vectors=bool(complete))
        extended = known.extended(new.placed, new.signatures, last_id if new.last_id is None else new.last_id)
        if new.vectors is not None:
            for session_id, cached in complete.items():
                rows = extended.rows_in(session_id, known.count)
                self._cached[session_id] = cached.extended(rows, new.vectors[rows - known.count], extended.count)
        return extended
