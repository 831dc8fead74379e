"""Work on all memories: missing vectors, words from earlier rules, the end of a change of the model.

Memories lack vectors if they were stored without a model or by the original server, and all of them when the model
changes. One process at a time works on all memories, under a lease: if it is killed, the next one continues.
"""

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar

from vector_memory.answers.overview import BackfillResult
from vector_memory.domain import STORED, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError, OtherModelError, is_about_text, where
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import NO_LINKS, Lease, Links, Memory, Origin
from vector_memory.tagged.vocabulary import Vocabulary
from vector_memory.writing.indexer import Indexer, complete

logger = logging.getLogger(__name__)

EVERYTHING = Scope(as_of=STORED)

T = TypeVar("T")

LEASE_SECONDS = 5.0
"""If the process that works on all memories is silent this long, another one may take over."""

WAIT_SECONDS = 0.1

PAUSE_SECONDS = 0.02
"""Pause between long transactions. Writers of other processes do not queue for the lock: without a pause they would
wait for it up to 1.2 s, with it usually 0.01 s."""

Progress = Callable[[int, int], None]
"""Called with the number of memories done and their total number."""


OTHER_MODEL = (
    "A `vector-memory reembed` with another model has started and ended this one: choose one model and repeat the "
    "command with it."
)


class Reembedded(NamedTuple):
    """How many memories got new vectors, and how many still have none; `message` is a summary."""

    memories: int
    remaining: int
    message: str


class UpkeepLease:
    """The right of one process to work on all memories."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._owner = uuid.uuid4().hex
        self._renewed_at = -math.inf

    def take(self) -> bool:
        """Take or renew the lease; False: another process has it."""
        if time.monotonic() < self._renewed_at + LEASE_SECONDS / 2:
            return True
        with self._storage.write() as writer:
            is_taken = writer.upkeep.change.take_lease(Lease(self._owner, time.time() + LEASE_SECONDS))
        self._renewed_at = time.monotonic() if is_taken else -math.inf
        return is_taken

    def keep(self) -> None:
        """Renew the lease. If another process has taken it because this one was slow, wait for that one."""
        while not self.take():
            time.sleep(WAIT_SECONDS)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lease, and release it after the block."""
        self.keep()
        try:
            yield
        finally:
            self._renewed_at = -math.inf
            with self._storage.write() as writer:
                writer.upkeep.change.release_lease(self._owner)


class Backfill:
    """Computes missing vectors, or all with another model, in short transactions: its process may end at any time."""

    def __init__(self, storage: Storage, indexer: Indexer, vocabulary: Vocabulary) -> None:
        self._storage = storage
        self._indexer = indexer
        self._vocabulary = vocabulary
        self.lease = UpkeepLease(storage)

    def begin(self, threshold: int) -> bool:
        """Reindex words from earlier rules, and leave the missing vectors to the background.

        `threshold` memories or more are left to a command, unless the model is being changed. Then this is called again
        until all vectors of other models are removed, and returns True.
        """
        with self._storage.read() as reader:
            is_outdated = reader.upkeep.portions.count_outdated() > 0
            missing, current = reader.memories.count(EVERYTHING, without_vectors=True), reader.vectors.fingerprint()
            is_changed = bool(reader.upkeep.change.others())
            coming = reader.vectors.pending(EVERYTHING).memories
        if is_outdated and self.lease.take():
            with self.lease.held():
                self.index_words()
        if not missing and not is_changed:
            return False
        fingerprint = self._indexer.fingerprint
        is_changed = is_changed and current == fingerprint
        if missing and (is_changed or missing < threshold):
            with self._storage.write() as writer:
                writer.vectors.require_current(fingerprint)
                writer.defer_missing_vectors()
            self._vocabulary.add_missing_vectors()
        if is_changed and not missing and not coming and self.lease.take():
            with self.lease.held():
                self.finish_change()
            return False
        return is_changed

    def run(self, on_progress: Progress | None = None) -> BackfillResult:
        """Compute the missing vectors. Memories on which the engine fails count as remaining.

        Raises EmbeddingUnavailableError; vectors computed before that are kept.
        """
        indexed = chunks = 0
        finish = partial(complete, self._storage, self._indexer, on_progress=lambda _done, _total: self.lease.keep())
        with self._storage.read() as reader:
            missing = self._missing_in(reader)
            has_work = missing or reader.upkeep.change.others() or reader.upkeep.portions.count_outdated()
        if has_work:
            with self.lease.held():
                self.index_words()
                for done, memory in enumerate(self._missing(), start=1):
                    chunk_count = if_possible(finish, memory)
                    indexed += chunk_count is not None
                    chunks += chunk_count or 0
                    if on_progress is not None:
                        on_progress(done, max(done, missing))
                self.finish_change()
        self._vocabulary.add_missing_vectors()
        with self._storage.read() as reader:
            remaining = self._missing_in(reader)
            coming = reader.vectors.pending(EVERYTHING).memories
        return BackfillResult(
            memories_processed=indexed,
            chunks_processed=chunks,
            memories_remaining=remaining,
            message=f"Indexed {counted(indexed, 'memory', 'memories')} with {counted(chunks, 'chunk')}; "
            f"{remaining:,} remaining{f', {coming:,} of them being computed by a server' if coming else ''}.",
        )

    def index_words(self) -> None:
        """Reindex words from earlier rules block by block; finished blocks are kept."""
        with self._storage.read() as reader:
            is_left = reader.upkeep.portions.count_outdated() > 0
        while is_left:
            with self._storage.write() as writer:
                is_left = writer.keywords.index_again()
            self.lease.keep()
            time.sleep(PAUSE_SECONDS)

    def finish_change(self) -> None:
        """Remove the vectors of other models, when all memories have those of the current one.

        Raises EmbeddingUnavailableError if the engine has failed on most memories.
        """
        with self._storage.read() as reader:
            if not reader.upkeep.change.others():
                return
            reader.vectors.require_current(self._indexer.fingerprint)
            last_id = reader.last_ids().memory
        while self._is_coming(last_id):
            self.lease.keep()
            time.sleep(WAIT_SECONDS)
        with self._storage.read() as reader:
            reader.vectors.require_current(self._indexer.fingerprint)
            require_most_recomputed(self._missing_in(reader), reader.memories.count(EVERYTHING))
        self._vocabulary.add_missing_vectors()
        self._link()
        while self._remove_step():
            self.lease.keep()
            time.sleep(PAUSE_SECONDS)
        self._storage.purge_deleted()

    def _is_coming(self, last_id: int) -> bool:
        """Return whether a server is computing vectors of memories up to this one. New ones arrive all the time."""
        with self._storage.read() as reader:
            return reader.vectors.pending(EVERYTHING, last_id).memories > 0

    def _remove_step(self) -> bool:
        with self._storage.write() as writer:
            writer.vectors.require_current(self._indexer.fingerprint)
            return writer.upkeep.change.remove_step()

    def _link(self) -> None:
        """Find later memories on the subjects of others again, each among earlier ones."""
        with self._storage.write() as writer:
            writer.remove_links()
        with self._storage.read() as reader:
            ids = reader.memories.ids(Scope())
        for number in ids:
            self.lease.keep()
            with self._storage.read() as reader:
                links = self._links_of(reader, number)
            if links.evidence or links.series:
                with self._storage.write() as writer:
                    writer.link(number, links)

    def _links_of(self, reader: Reader, memory_id: int) -> Links:
        memory = reader.memories.get_all([memory_id]).get(memory_id)
        if memory is None:
            return NO_LINKS
        links = self._indexer.links_of(reader, memory.memory_type, memory.content, None, memory_id)
        found = reader.memories.origins(list(links.evidence)).values()
        older = [one.id for one in found if order_of(one) < order_of(memory)]
        return links._replace(evidence={number: links.evidence[number] for number in older})

    @staticmethod
    def _missing_in(reader: Reader) -> int:
        return reader.memories.count(EVERYTHING, without_vectors=True)

    def _missing(self) -> Iterator[Memory]:
        """Yield the memories that lack vectors, last those that may kill the process again."""
        for given_up in (False, True):
            last_id = 0
            while memory := self._next(last_id, given_up=given_up):
                yield memory
                last_id = memory.id

    def _next(self, after_id: int, *, given_up: bool) -> Memory | None:
        with self._storage.read() as reader:
            return reader.vectors.next_without_vectors(after_id, given_up=given_up)

    # Recomputes all vectors with another model.

    def reembed(self, on_progress: Progress | None = None) -> Reembedded:
        """Recompute the vectors with this model, and compute those of memories that have none; add missing states.

        Raises EmbeddingUnavailableError, DatabaseError; work completed before that is kept.
        """
        fingerprint = self._indexer.fingerprint
        with self._storage.read() as reader:
            is_current = reader.vectors.fingerprint() == fingerprint
        if not is_current:
            with self._storage.write() as writer:
                writer.upkeep.change.begin(fingerprint)
        try:
            backfilled = self.run(on_progress)
            with self._storage.read() as reader:
                reader.vectors.require_current(fingerprint)
            recomputed = self._add_states(on_progress) if self._indexer.keeps_states else 0
        except OtherModelError:
            raise DatabaseError(OTHER_MODEL) from None
        done, remaining = recomputed + backfilled.memories_processed, backfilled.memories_remaining
        memories = counted(done, "memory", "memories")
        summary = f"recomputed {memories}, {remaining:,} remaining" if done or remaining else "nothing to do"
        return Reembedded(done, remaining, f"The vectors are from {fingerprint}: {summary}.")

    def _add_states(self, on_progress: Progress | None) -> int:
        """Recompute the vectors of memories that lack states of tokens, and return of how many."""
        with self._storage.read() as reader:  # which may read every passage, so not while others wait to write
            lacking = reader.upkeep.change.without_states()
        recomputed = 0
        with self.lease.held() if lacking else nullcontext():
            for done, number in enumerate(lacking, start=1):
                self.lease.keep()
                with self._storage.read() as reader:
                    memory = reader.memories.get_all([number]).get(number)
                if memory is not None:
                    recomputed += if_possible(self._replace, memory) is not None
                if on_progress is not None:
                    on_progress(done, len(lacking))
        return recomputed

    def _replace(self, memory: Memory) -> int:
        """Recompute the vectors of one memory; return how many."""
        with self._storage.read() as reader:
            chunks = [stored.chunk for stored in reader.chunks.of(memory.id)]
        units = self._indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks)
        embedded = self._indexer.embed(units)
        with self._storage.write() as writer:
            writer.replace_vectors(memory, embedded)
        return len(embedded.passages)


def order_of(origin: Origin) -> tuple[int, str, int]:
    """Return the key that sorts memories in the order of storing, whatever their machines' clocks said."""
    return origin.turn, origin.created_at, origin.id


def require_most_recomputed(missing: int, total: int) -> None:
    """Raise EmbeddingUnavailableError if more memories would lose their vectors than have new ones."""
    if missing > total - missing:
        raise EmbeddingUnavailableError(
            f"The model failed on {missing:,} of {counted(total, 'memory', 'memories')}, so the vectors of the earlier "
            "one stay, for servers with that model. See the log for the reason, and repeat the command once it is "
            "fixed, or run `vector-memory reembed` with the earlier model."
        )


def if_possible(index: Callable[[Memory], T], memory: Memory) -> T | None:
    """Return `index(memory)`, or None if the engine fails on this memory; the others are still indexed."""
    try:
        return index(memory)
    except Exception as error:
        if not is_about_text(error):
            raise
        # The error's message is not logged, because it may quote the text.
        logger.warning("Memory %d could not be indexed: %s", memory.id, where(error))
        return None
