"""Nearest passages from memory: what the file says, derived from it in the background, and caught up with it in time.

A search looks first, inside its own transaction, whether the file has passages that are not known here, and reads
them; which are gone shows when the nearest are looked up in the file. When the index is not loaded, or is not of the
state that the transaction sees, it does not answer, and the tables do.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.errors import VectorMemoryError
from vector_memory.search.catalogue import Bools, Catalogue, Rows, Vectors, joined
from vector_memory.search.ranking import cosine
from vector_memory.storage.database import Connection, Database
from vector_memory.storage.passages import (
    Compared,
    PassagesState,
    PlacedPassage,
    all_vectors_of,
    compared,
    memories_in,
    memory_ids,
    passages_after,
    passages_of,
    passages_state,
    passages_with,
    places_of,
)
from vector_memory.storage.vectors import Candidate, vector_dimensions
from vector_memory.values import Scope

logger = logging.getLogger(__name__)

STEP = 4_096
"""So many passages are read in one transaction of the background, and at most during a search."""

HELD_BYTES = 84_000_000
"""Vectors kept in memory: 54,687 of 384 numbers. A scope among so many is compared completely."""

LEAST_ROOM = 100
"""The smallest sessions count as so many passages, so that not too many are held."""

LEAST_COMPARED = 1_000
COMPARED_SHARE = 1_000
"""Of a larger scope the likeliest by their signatures are compared: so many, or one of COMPARED_SHARE if that is more.
How often one of the nearest is missed is in docs/performance.md."""

ROUNDING = 1e-5
"""More than what the same cosine can differ by when it is computed in another way."""

STOP_SECONDS = 0.5


class Nearest(NamedTuple):
    """Passages near a query, nearest first, then by id. No other is nearer than `horizon`, a cosine; None: no others.

    Where not everything was compared, the others are taken to be as far as their signatures say.
    """

    candidates: list[Candidate]
    horizon: float | None


@dataclass(frozen=True, slots=True)
class Held:
    """The vectors of the passages of a session, or of the whole file, in the order of their rows; it only grows."""

    rows: Rows
    vectors: Vectors
    count: int

    @classmethod
    def with_room(cls, count: int, dimensions: int) -> "Held":
        """Return no vectors yet, with room for so many."""
        return cls(np.empty(count, np.int64), np.empty((count, dimensions), np.float32), 0)

    def extended(self, rows: Rows, vectors: Vectors) -> "Held":
        """Return these with further ones, whose rows are above those of all others."""
        return Held(
            joined(self.rows, self.count, rows), joined(self.vectors, self.count, vectors), self.count + len(rows)
        )


class PassageIndex:
    """Loads and keeps what `View` answers from. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._loader: threading.Thread | None = None
        self._catalogue: Catalogue | None = None
        self._held: OrderedDict[str | None, Held] = OrderedDict()
        """By session, the latest used at the end; by None if it is the whole file."""

    def start_loading(self) -> None:
        """Load, or catch up, in the background, and from now on whenever it is needed; returns at once."""
        with self._starting:
            if not self._stopping.is_set() and (self._loader is None or not self._loader.is_alive()):
                self._loader = threading.Thread(target=self._load_quietly, name="passage-index", daemon=True)
                self._loader.start()

    def wait_for_loading(self) -> None:
        """Wait until what is being loaded is loaded."""
        if self._loader is not None:
            self._loader.join()

    def close(self) -> None:
        """Stop loading."""
        self._stopping.set()
        if self._loader is not None:
            self._loader.join(STOP_SECONDS)

    def view(self, connection: Connection) -> "View | None":
        """Return what answers for the state of the file that the transaction sees; None: the tables have to."""
        if self._loader is None:
            return None
        state = passages_state(connection)
        catalogue = self._catalogue
        if catalogue is None or catalogue.schema != state.schema or state.last_id - catalogue.last_id > STEP:
            self.start_loading()
            return None
        if catalogue.last_id < state.last_id:
            with self._lock:
                catalogue = self._catalogue
                if catalogue is None or catalogue.schema != state.schema:
                    return None
                if catalogue.last_id < state.last_id:
                    catalogue = self._catch_up(connection, catalogue, state)
        return View(self, catalogue, state)

    def held(self, connection: Connection, view: "View", scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""
        room = HELD_BYTES // (4 * view.catalogue.dimensions)
        is_whole = view.catalogue.count <= room
        if not is_whole and scope.session_id is None:
            return None
        key = None if is_whole else scope.session_id
        with self._lock:
            current = self._catalogue
            if current is None or current.schema != view.state.schema:
                return self._read(connection, view, key, room)
            held = self._held.pop(key, None)
            if held is None:
                held = self._read(connection, view, key, room)
                if current.last_id > view.state.last_id:
                    # Passages are known here that this transaction cannot read.
                    return held
            if held is None or held.count > room:
                return None
            while self._held and sum(max(other.count, LEAST_ROOM) for other in self._held.values()) > room - held.count:
                self._held.popitem(last=False)
            self._held[key] = held
            return held

    def _read(self, connection: Connection, view: "View", session_id: str | None, room: int) -> Held | None:
        """Read the vectors of a session, or of the whole file; None: they are too many."""
        catalogue = view.catalogue
        rows = view.visible(catalogue.rows_in(session_id))
        if len(rows) > room:
            return None
        held = Held.with_room(len(rows), catalogue.dimensions)
        for start in range(0, len(rows), STEP):
            ids, vectors = all_vectors_of(connection, catalogue.ids[rows[start : start + STEP]].tolist())
            held = held.extended(catalogue.rows_of(ids), vectors)
        return held

    def _load_quietly(self) -> None:
        try:
            while not self._stopping.is_set():
                with self._database.read() as connection, self._lock:
                    state = passages_state(connection)
                    catalogue = self._catalogue
                    if catalogue is None or catalogue.schema != state.schema:
                        self._held.clear()
                        catalogue = Catalogue.empty(state.schema, vector_dimensions(connection))
                    if self._catch_up(connection, catalogue, state).last_id >= state.last_id:
                        return
        except VectorMemoryError as error:
            logger.warning("Vectors were not loaded into memory; searches read them from the file: %s", error)

    def _catch_up(self, connection: Connection, catalogue: Catalogue, state: PassagesState) -> Catalogue:
        """Read at most STEP passages that are not known yet. The lock is held."""
        passages = passages_after(connection, catalogue.last_id, STEP)
        places = places_of(connection, list({passage.memory_id for passage in passages}))
        known = {place.memory_id for place in places}
        ids, vectors = all_vectors_of(connection, [passage.id for passage in passages if passage.memory_id in known])
        readable = set(ids.tolist())
        last_id = passages[-1].id if len(passages) == STEP else max(state.last_id, catalogue.last_id)
        self._catalogue = catalogue.extended(
            [passage for passage in passages if passage.id in readable], vectors, places, last_id
        )
        self._extend_held(self._catalogue, catalogue.count, vectors)
        return self._catalogue

    def _extend_held(self, catalogue: Catalogue, first: int, vectors: Vectors) -> None:
        """Add the vectors of the rows from `first` on to those that are held."""
        for session_id, held in self._held.items():
            rows = catalogue.rows_in(session_id, first)
            if len(rows):
                self._held[session_id] = held.extended(rows, vectors[rows - first])


class View:
    """Answers for the state of the file that one transaction sees."""

    def __init__(self, index: PassageIndex, catalogue: Catalogue, state: PassagesState) -> None:
        self._index = index
        self.catalogue = catalogue
        self.state = state
        self._visible = catalogue.up_to(state.last_id)

    def nearest(
        self, connection: Connection, table: str, scope: Scope, query: NDArray[np.float32], count: int
    ) -> Nearest:
        """Return the `count` passages of the scope nearest to the query, or a few more."""
        held = self._index.held(connection, self, scope)
        while True:
            members = self._members(connection, scope)
            if held is None:
                found, gone = self._among_all(connection, table, members, query, count)
            else:
                found, gone = self._among_held(connection, held, members, query, count)
            if not gone:
                return found
            self._forget(connection, gone, len(found.candidates))

    def cosines(
        self, connection: Connection, table: str, scope: Scope, query: NDArray[np.float32], pieces: Sequence[int]
    ) -> dict[int, float] | None:
        """Return the cosines of those pieces of the scope that have vectors; None: the tables have to."""
        held = self._index.held(connection, self, scope)
        if held is None:
            return None
        pairs = passages_of(connection, table, pieces)
        ids = self.catalogue.ids[self.visible(held.rows[: held.count])]
        pairs = pairs[np.isin(pairs[:, 1], ids)]
        compared_with = distances(held.vectors[np.searchsorted(ids, pairs[:, 1])], query)
        found: dict[int, float] = {}
        for piece, distance in zip(pairs[:, 0].tolist(), compared_with.tolist(), strict=True):
            found[piece] = max(found.get(piece, -1.0), cosine(distance))
        return found

    def visible(self, rows: Rows) -> Rows:
        """Return those of the rows, which ascend, that the transaction may see."""
        return rows[: np.searchsorted(rows, self._visible)]

    def _members(self, connection: Connection, scope: Scope) -> Bools:
        """Tell of each memory's row whether it is in the scope."""
        members = self.catalogue.members(scope)
        if scope.category is not None or scope.tags:
            wanted = np.array(memories_in(connection, scope), np.int64)
            members &= np.isin(self.catalogue.memory_ids[: self.catalogue.memory_count], wanted)
        return members

    def _among_held(
        self, connection: Connection, held: Held, members: Bools, query: Vectors, count: int
    ) -> tuple[Nearest, list[int]]:
        """Compare all vectors that are held. Also returns which passages among the nearest are gone."""
        rows = self.visible(held.rows[: held.count])
        inside = np.flatnonzero(members[self.catalogue.owners[rows]])
        horizon = None
        if len(inside) > count:
            is_most = len(inside) * 4 > len(rows)
            # Not `@`: OpenBLAS shares it out among threads, which wait for each other when the cores are busy.
            cosines = np.vecdot(held.vectors[: len(rows)] if is_most else held.vectors[inside], query)
            cosines = cosines[inside] if is_most else cosines
            enough = np.partition(cosines, -count)[-count]
            inside = inside[cosines >= enough - ROUNDING]
            horizon = float(enough) - ROUNDING / 2
        ids = self.catalogue.ids[rows[inside]].tolist()
        passages = {passage.id: passage for passage in passages_with(connection, ids)}
        candidates = sorted(
            (distance, passage_id)
            for passage_id, distance in zip(ids, distances(held.vectors[inside], query).tolist(), strict=True)
            if passage_id in passages
        )
        return (
            Nearest([candidate(passages[passage_id], distance) for distance, passage_id in candidates], horizon),
            [passage_id for passage_id in ids if passage_id not in passages],
        )

    def _among_all(
        self, connection: Connection, table: str, members: Bools, query: Vectors, count: int
    ) -> tuple[Nearest, list[int]]:
        """Compare the likeliest. Also returns which of them are gone."""
        rows = np.flatnonzero(members[self.catalogue.owners[: self._visible]])
        limit = max(LEAST_COMPARED, 2 * count, len(rows) // COMPARED_SHARE)
        is_complete = len(rows) <= limit
        chosen = rows if is_complete else self.catalogue.likeliest(rows, query, limit)
        ids = np.sort(self.catalogue.ids[chosen]).tolist()
        found = compared(connection, table, ids, query)
        there = {passage.id for passage in found}
        candidates = [candidate(passage, passage.distance) for passage in found]
        horizon = None if is_complete or not candidates else cosine(candidates[:count][-1].distance)
        return Nearest(candidates, horizon), [passage_id for passage_id in ids if passage_id not in there]

    def _forget(self, connection: Connection, gone: Sequence[int], remaining: int) -> None:
        """Note that passages are gone; if they are many, look which memories are."""
        self.catalogue.forget(gone)
        if len(gone) > remaining and self.state.last_id == self.catalogue.last_id:
            self.catalogue.forget_memories_but(memory_ids(connection))


def candidate(passage: PlacedPassage | Compared, distance: float) -> Candidate:
    """Return a passage of the scope as a candidate."""
    return Candidate(passage.memory_id, passage.chunk_id, distance, wanted=True)


def distances(vectors: Vectors, query: Vectors) -> Vectors:
    """Return how far each vector is from the query: equal ones equally far, as no matrix product warrants."""
    lengths: Vectors = np.sqrt(np.square(vectors - query).sum(axis=1))
    return lengths
