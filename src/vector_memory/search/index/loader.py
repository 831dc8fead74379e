"""What a process keeps of the file in memory: derived from it in the background, and caught up with it in time.

A search looks first, inside its own transaction, whether the file has memories, pieces or passages that are not known
here, and reads them, and whether some are gone. When the index is not loaded, or is not of the state that the
transaction sees, it does not answer, and the tables do.
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
from vector_memory.errors import DatabaseError, VectorMemoryError, where
from vector_memory.search.index.signatures import Catalogue
from vector_memory.search.index.snapshot import Held, View
from vector_memory.search.index.units import Pieces
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.passages import all_vectors_of, last_passage_id, passages_after
from vector_memory.storage.sqlite.units import (
    FiledMemory,
    PiecesState,
    chunks_of,
    ids_filed,
    memories_chunked_after,
    memories_filed_after,
    pieces_state,
)
from vector_memory.storage.sqlite.vectors import vector_dimensions

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

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._loader: threading.Thread | None = None
        self._failed_at = -math.inf
        self._catalogue: Catalogue | None = None
        self._held: OrderedDict[str | None, Held] = OrderedDict()
        """By session, the latest used at the end; by None if it is the whole file."""

    def start_loading(self) -> None:
        """Load, or catch up, in the background, and from now on whenever it is needed; returns at once."""
        with self._starting:
            if not self._stopping.is_set() and (self._loader is None or not self._loader.is_alive()):
                self._loader = threading.Thread(target=self._load, name="passage-index", daemon=True)
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

    def view(self, connection: Connection) -> View | None:
        """Return what answers for the state of the file that the transaction sees; None: the tables have to."""
        if self._loader is None or time.monotonic() < self._failed_at + RETRY_SECONDS:
            return None
        state, last_id = pieces_state(connection), last_passage_id(connection)
        catalogue = self._catalogue
        if catalogue is None or is_far_behind(catalogue, state, last_id):
            self.start_loading()
            return None
        if catalogue.pieces.state != state or catalogue.last_id < last_id:
            with self._lock, self._failures_noted():
                catalogue = self._catalogue
                if catalogue is None or is_far_behind(catalogue, state, last_id):
                    return None
                catalogue = self._catch_up(connection, catalogue, state, last_id)
        if catalogue.last_id < last_id:
            return None
        pieces = catalogue.pieces if catalogue.pieces.state == state else catalogue.pieces.as_of(state)
        return None if pieces is None else View(self, catalogue, pieces, last_id)

    def held(self, connection: Connection, view: View, scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""
        room = HELD_BYTES // (4 * view.catalogue.dimensions)
        is_whole = view.catalogue.count <= room
        if not is_whole and scope.session_id is None:
            return None
        key = None if is_whole else scope.session_id
        held = self._known(view, key)
        if held is None or held.until < view.count:
            with self._reading:
                held = self._known(view, key)
                if held is None or held.until < view.count:
                    held = self._read(connection, view, key, held, room)
        return held if held is None or held.count <= room else None

    def _known(self, view: View, session_id: str | None) -> Held | None:
        with self._lock:
            if self._of_same_file(view) is None or session_id not in self._held:
                return None
            self._held.move_to_end(session_id)
            return self._held[session_id]

    def _read(
        self, connection: Connection, view: View, session_id: str | None, known: Held | None, room: int
    ) -> Held | None:
        """Read the vectors of a session, or of the whole file, beyond the known ones; None: they are too many.

        What others have stored meanwhile, this transaction cannot read. The vectors are kept all the same: otherwise
        many searches beside many stores would all read everything, one after another.
        """
        catalogue = view.catalogue
        rows = view.visible(catalogue.rows_in(session_id, known.until if known else 0))
        if len(rows) + (known.count if known else 0) > room:
            return None
        held = known or Held.with_room(len(rows), catalogue.dimensions)
        for start in range(0, len(rows), STEP):
            ids, vectors = all_vectors_of(connection, catalogue.ids[rows[start : start + STEP]].tolist())
            held = held.extended(catalogue.rows_of(ids), vectors, held.until)
        held = replace(held, until=view.count)
        with self._lock:
            if self._of_same_file(view) is not None:
                self._keep(session_id, held, room)
        return held

    def _of_same_file(self, view: View) -> Catalogue | None:
        """Return what is known now, unless tables have been exchanged since."""
        current = self._catalogue
        is_same = current is not None and current.pieces.state.schema == view.pieces.state.schema
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
            # In this order: a state of the file is not held while waiting for searches.
            with self._failures_noted(), self._lock, self._database.read() as connection:
                more = self._load_some(connection)

    def _load_some(self, connection: Connection) -> bool:
        """Read all pieces that are not known yet and at most STEP passages; tell whether there are more."""
        state, last_id = pieces_state(connection), last_passage_id(connection)
        catalogue = self._catalogue
        if catalogue is None or catalogue.pieces.state.schema != state.schema:
            self._catalogue = None
            self._held.clear()
            catalogue = Catalogue.empty(Pieces.empty(state.schema), vector_dimensions(connection))
        return self._catch_up(connection, catalogue, state, last_id).last_id < last_id

    @contextlib.contextmanager
    def _failures_noted(self) -> Iterator[None]:
        """Let the tables answer for a while when the file cannot be read into memory."""
        try:
            yield
        except Exception as error:  # whatever it is, it may not end the thread, nor the search that meets it
            self._failed_at = time.monotonic()
            reason = error if isinstance(error, VectorMemoryError) else where(error)
            logger.warning("Searches are slower for now: the in-memory index was not loaded. %s", reason)

    def _catch_up(self, connection: Connection, catalogue: Catalogue, state: PiecesState, last_id: int) -> Catalogue:
        """Read pieces, and at most STEP passages, that are not known yet, if this state is later. The lock is held."""
        pieces = caught_up(connection, catalogue.pieces, state)
        catalogue = catalogue if pieces is catalogue.pieces else catalogue.with_pieces(pieces)
        if catalogue.last_id < last_id:
            catalogue = self._with_passages(connection, catalogue, last_id)
        self._catalogue = catalogue
        return catalogue

    def _with_passages(self, connection: Connection, catalogue: Catalogue, last_id: int) -> Catalogue:
        passages = passages_after(connection, catalogue.last_id, STEP)
        ids, vectors = all_vectors_of(connection, [passage.id for passage in passages])
        readable = set(ids.tolist())
        last = passages[-1].id if len(passages) == STEP else last_id
        extended = catalogue.extended([passage for passage in passages if passage.id in readable], vectors, last)
        for session_id, held in self._held.items():
            if held.until == catalogue.count:  # what lacks more is read when it is searched
                rows = extended.rows_in(session_id, catalogue.count)
                self._held[session_id] = held.extended(rows, vectors[rows - catalogue.count], extended.count)
        return extended


def is_far_behind(catalogue: Catalogue, state: PiecesState, last_id: int) -> bool:
    """Tell whether a catalogue is of another file, or so much has come since that the background has to read it."""
    known = catalogue.pieces.state
    return (
        known.schema != state.schema
        or last_id - catalogue.last_id > STEP
        or max(state.last_memory_id - known.last_memory_id, state.last_chunk_id - known.last_chunk_id) > STEP
    )


def caught_up(connection: Connection, pieces: Pieces, state: PiecesState) -> Pieces:
    """Return the pieces as they are in this state of the file, or as they are given if that is an earlier one.

    Raises DatabaseError if the keyword index is not what its tables say it is.
    """
    known = pieces.state
    if state[1:3] < known[1:3] or (state[1:3] == known[1:3] and state.memories >= known.memories):
        return pieces
    again = memories_chunked_after(connection, known.last_chunk_id, known.last_memory_id)
    pieces = pieces.without([memory.memory_id for memory in again])
    pieces = with_memories(connection, pieces, again, state)
    last_id = known.last_memory_id
    while memories := memories_filed_after(connection, last_id, STEP):
        pieces = with_memories(connection, pieces, memories, state)
        last_id = memories[-1].memory_id
    if pieces.memories_there() > state.memories:
        there = ids_filed(connection)
        pieces = pieces.without(np.setdiff1d(pieces.memory_ids[: pieces.memory_count], there).tolist())
    if pieces.memories_there() != state.memories:
        raise DatabaseError("The keyword index belongs to other memories: run `vector-memory doctor --fix`.")
    return replace(pieces, state=state)


def with_memories(connection: Connection, pieces: Pieces, memories: list[FiledMemory], state: PiecesState) -> Pieces:
    """Return the pieces with those of further memories."""
    return pieces.extended(memories, chunks_of(connection, [memory.memory_id for memory in memories]), state)
