"""Changes a file over to another model: makes all vectors anew, beside the old ones, which answer until the end."""

import time
from typing import NamedTuple

from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress, if_possible
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite import reembedding as spare
from vector_memory.storage.sqlite.adding import stored_passages
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.vectors import are_comparable, describe

PAUSE_SECONDS = 0.02
"""Between the steps of erasing. Writers of other processes do not queue for the lock: without a pause they would find
it taken again and again, up to 1.2 s long; with it for 0.01 s as a rule."""


class Reembedded(NamedTuple):
    """How many memories were given vectors, and how many still have none; `message` says it in words."""

    memories: int
    remaining: int
    message: str


class Reembedding:
    """Fills the spare tables memory by memory, exchanges them for those in use, and erases the old vectors.

    Each step is a transaction of its own, so it can be stopped at any time and repeated. Until the exchange servers of
    the old model search, store and delete as ever. Of several processes at once each may do work that another has
    done, and one with another model puts an end to the others: a waste, but no harm.
    """

    def __init__(self, storage: SqliteStorage, indexer: Indexer, backfill: Backfill) -> None:
        self._storage = storage
        self._indexer = indexer
        self._backfill = backfill

    def run(self, on_progress: Progress | None = None) -> Reembedded:
        """Let the vectors of the file be those of this model, and give some to memories that had none.

        Raises EmbeddingUnavailableError, DatabaseError; what was done until then stays done.
        """
        model = describe(self._indexer.fingerprint)
        made = self._make_anew(on_progress) if self._begin() else 0
        self._erase()
        backfilled = self._backfill.run(on_progress)
        done, remaining = made + backfilled.memories_processed, backfilled.memories_remaining
        memories = "memory" if done == 1 else "memories"
        did = f"recomputed {done} {memories}, {remaining} remaining" if done or remaining else "nothing to do"
        return Reembedded(done, remaining, f"The vectors are from {model}: {did}.")

    def _begin(self) -> bool:
        """Drop what was begun for another model, and see to it that there are spare tables; False: none are needed."""
        fingerprint = self._indexer.fingerprint
        with self._storage.write() as writer:
            connection: Connection = writer.connection
            needed = not are_comparable(connection, fingerprint)
            if spare.unfinished(connection) != fingerprint:
                spare.give_up(connection)
        self._erase()
        with self._storage.write() as writer:
            connection = writer.connection
            if needed and not spare.exists(connection):
                spare.create(connection, fingerprint)
        return needed

    def _make_anew(self, on_progress: Progress | None) -> int:
        """Make the vectors of all memories that have some, put them in use, and return of how many memories."""
        with self._storage.read() as reader:
            total = spare.count_missing(reader.connection)
        done = made = 0
        memory = self._next_or_exchange(0)
        while memory is not None:
            made += if_possible(self._index, memory) is not None
            done += 1
            if on_progress is not None:
                on_progress(done, max(done, total))
            # What is stored meanwhile has a larger id.
            memory = self._next_or_exchange(memory.id)
        return made

    def _next_or_exchange(self, after_id: int) -> Memory | None:
        """Return the next memory whose vectors are to be made; None: there is none, and the new ones are in use.

        Raises EmbeddingUnavailableError if the engine failed on most memories.
        """
        with self._storage.write() as writer:
            connection: Connection = writer.connection
            if self._is_changed_over(connection):
                return None
            memory = spare.next_missing(connection, after_id)
            if memory is None:
                require_most_made(connection)
                spare.exchange(connection)
            return memory

    def _index(self, memory: Memory) -> int:
        """Make one memory's vectors anew; return how many."""
        with self._storage.read() as reader:
            stored = reader.chunks_of(memory.id)
        chunks = [part.chunk for part in stored]
        embedded = self._indexer.embed(self._indexer.pieces(memory.memory_type, memory.title, memory.content, chunks))
        passages = stored_passages(memory, [part.id for part in stored], embedded)
        with self._storage.write() as writer:
            connection: Connection = writer.connection
            # Another process may have done it or deleted the memory meanwhile.
            if not self._is_changed_over(connection) and spare.is_missing(connection, memory.id):
                spare.insert_passages(connection, memory, passages, embedded.vectors)
        return len(passages)

    def _is_changed_over(self, connection: Connection) -> bool:
        """Tell whether the new vectors are in use. Raises DatabaseError if they are not even being made any more."""
        if are_comparable(connection, self._indexer.fingerprint):
            return True
        if spare.unfinished(connection) != self._indexer.fingerprint:
            raise DatabaseError(
                "A `vector-memory reembed` with another model has started and discarded the progress of this one: "
                "decide on one model and repeat the command with it."
            )
        return False

    def _erase(self) -> None:
        """Erase vectors that are not needed any more, if there are any, in steps that keep no writer waiting."""
        erased = False
        while self._erase_step():
            erased = True
            time.sleep(PAUSE_SECONDS)
        if erased:
            self._storage.purge_deleted()

    def _erase_step(self) -> bool:
        with self._storage.write() as writer:
            connection: Connection = writer.connection
            return spare.erase_step(connection)


def require_most_made(connection: Connection) -> None:
    """Raise EmbeddingUnavailableError if more memories would lose their vectors than have new ones."""
    missing, made = spare.count_missing(connection), spare.count_made(connection)
    if missing > made:
        raise EmbeddingUnavailableError(
            f"The model failed on {missing} of {missing + made} memories, so the old vectors stay in use. The log says "
            "how it failed; repeat the command once that is fixed."
        )
