"""Stores many memories at a time, such as a client's history."""

from collections.abc import Collection, Sequence

from vector_memory.domain import NewMemory, utc_now
from vector_memory.domain.times import AT_ONCE_SECONDS, microseconds
from vector_memory.indexing.indexer import Indexer
from vector_memory.sessions.writer import hash_of, time_of_prompt, with_title
from vector_memory.storage.base import Storage
from vector_memory.storage.records import History


class Batches:
    """Stores memories without their vectors, which the backfill computes."""

    def __init__(self, storage: Storage, indexer: Indexer) -> None:
        self._storage = storage
        self._indexer = indexer

    def new_among(self, memories: Sequence[NewMemory], on_the_way: Collection[tuple[str, str]] = ()) -> list[NewMemory]:
        """Return the memories of sessions that are not stored yet, without repetitions.

        A prompt that its user has repeated is none: each stored one stands for the nearest in time. A session's prompts
        are therefore compared at once. `on_the_way`: hashes and times of prompts that are about to be stored.
        """
        alike: dict[object, list[NewMemory]] = {}
        for memory in memories:
            place = (memory.kind, memory.agent_id, memory.session_id, memory.session_iter, memory.task_code)
            key = (hash_of(memory.content), place, memory.parent_report_id, memory.metadata.get("category"))
            alike.setdefault(key, []).append(memory)
        new: list[NewMemory] = []
        with self._storage.read() as reader:
            for first, *others in alike.values():
                content_hash = hash_of(first.content)
                if time_of_prompt(first) is not None:
                    times = {time for its_hash, time in on_the_way if its_hash == content_hash}
                    times.update(reader.times_of_duplicates(first, content_hash))
                    new += without_nearest([first, *others], times)
                elif first.created_at in reader.times_of_duplicates(first, content_hash):
                    continue  # it may have been superseded since
                elif reader.find_duplicate(first, content_hash) is None:
                    new.append(first)
        chosen = set(map(id, new))
        return [memory for memory in memories if id(memory) in chosen]

    def store(self, memories: Sequence[NewMemory]) -> list[NewMemory]:
        """Store memories in one transaction, and return them without those that were stored before.

        Each is found by its words at once. Raises ChunkingError, DatabaseError; then nothing is stored.
        """
        self._storage.require_time_to_write()
        titled = map(with_title, memories)
        prepared = [(each, self._indexer.derived(each.kind, each.title, each.content)) for each in titled]
        stored, now = [], utc_now()
        with self._storage.write() as writer:
            for memory, derived in prepared:
                content_hash, at = hash_of(memory.content), memory.created_at or now
                if writer.find_duplicate(memory, content_hash, time_of_prompt(memory)) is None:
                    history = History(at, at, at, is_dated=at < utc_now(AT_ONCE_SECONDS))
                    writer.add_memory(memory, derived, content_hash=content_hash, history=history)
                    stored.append(memory)
        return stored


def without_nearest(prompts: Sequence[NewMemory], times: Collection[str]) -> list[NewMemory]:
    """Return the prompts without those nearest to these times."""
    known = {prompt.created_at for prompt in prompts} & set(times)
    left = {microseconds(prompt.created_at or ""): prompt for prompt in prompts if prompt.created_at not in known}
    for time in map(microseconds, set(times) - known):
        if left:
            del left[min(left, key=lambda at: abs(at - time))]
    return list(left.values())
