"""Holds memories back: those that await a person's review, and those that were taken out of use.

To readers, a held memory does not exist, and what it superseded is current. Only people release memories: no tool
does. What an agent has deleted is held too, until it is erased.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from vector_memory.answers.models import Result
from vector_memory.domain import STORED, MemoryKind, Scope, derived_from
from vector_memory.domain.validation import as_source, parse_id
from vector_memory.errors import NotFoundError, ValidationError, no_memory
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.queries.filters import DELETED
from vector_memory.storage.queries.lifecycle import QUARANTINED
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import Hold, Memory
from vector_memory.writing.deletion import Deletion
from vector_memory.writing.writer import require_existing

KEY = "content_hash", "memory_type", "agent_id", "session_id", "session_iter", "task_code", "created_at"
"""By what the copy of a memory is found."""


class HeldEntry(NamedTuple):
    """A held memory, and why it is held."""

    held: Hold
    memory: Memory


class Holding:
    """Lists, holds and releases memories."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def held(self) -> list[HeldEntry]:
        """Return the memories that are held back, the first to be held first."""
        with self._storage.read() as reader:
            held = reader.lifecycle.held()
            found = Portions(reader).whole([one.memory_id for one in held], bare=True)
        memories = {one.memory.id: one.memory for one in found}
        return [HeldEntry(one, memories[one.memory_id]) for one in held]

    def deleted(self, session: str | None = None, agent: str | None = None) -> list[HeldEntry]:
        """Return what agents have deleted and a person can bring back.

        `agent`: only what it has stored or deleted.
        """
        found = [one for one in self.held() if one.held.held == DELETED and session in (None, one.memory.session_id)]
        return [one for one in found if agent in (None, one.memory.agent_id, one.held.held_for)]

    def accept(self, memory_ids: Collection[int]) -> list[int]:
        """Release held memories, and return them. Raises NotFoundError.

        What was deleted stays so if its text was stored again, even if that was deleted and is released too.
        """
        with self._storage.write() as writer:
            held = require_held(writer, memory_ids)
            deleted = [number for number, one in held.items() if one.held == DELETED]
            released = set(held).difference(deleted)
            writer.bring_back(sorted(released))
            for one in reversed(Portions(writer).whole(sorted(deleted), bare=True)):
                if not is_stored_again(writer, one.memory):
                    writer.bring_back([one.memory.id])
                    released.add(one.memory.id)
        return [number for number in held if number in released]

    def reject(self, memory_ids: Sequence[int]) -> list[int]:
        """Delete held memories for good, and return them. Raises NotFoundError."""
        with self._storage.read() as reader:
            require_held(reader, memory_ids)
        Deletion(self._storage).delete_all(memory_ids)
        return list(memory_ids)

    def accept_one(self, memory_id: str | int) -> Result:
        """Release a held memory. Raises NotFoundError; ValidationError if its text was stored again."""
        if not self.accept([number := parse_id("memory_id", memory_id)]):
            raise ValidationError(f"The text of memory {number} was stored again: the newer memory has it.")
        return Result(message=f"Memory {number} can be found from now on.")

    def reject_one(self, memory_id: str | int) -> Result:
        """Delete a held memory for good. Raises NotFoundError."""
        self.reject([number := parse_id("memory_id", memory_id)])
        return Result(message=f"Deleted memory {number}.")

    def quarantine_one(self, memory_id: str | int) -> Result:
        """Take a memory out of use. Raises NotFoundError."""
        [number] = memory_ids = [parse_id("memory_id", memory_id)]
        with self._storage.write() as writer:
            require_existing(writer, memory_ids)
            writer.hold(memory_ids, QUARANTINED, "wrong")
        return Result(message=f"Memory {number} is out of use: Review lists it.")

    def touched(
        self,
        memory_ids: Collection[int] = (),
        *,
        session: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        token: str | None = None,
    ) -> list[int]:
        """Return these memories, those of a session, an agent, a source or a token, and all derived from any of them.

        `source`: as it was stored, or an address that it begins with. Derived: the memory is named as a source, or is
        an observation on it. Raises NotFoundError.
        """
        with self._storage.read() as reader:
            chosen = {one.memory.id for one in Portions(reader).whole(list(memory_ids), bare=True)}
            if missing := set(memory_ids) - chosen:
                raise no_memory(min(missing))
            for scope in (Scope(session_id=session, as_of=STORED), Scope(agent_id=agent, as_of=STORED)):
                if scope.session_id or scope.agent_id:
                    chosen.update(reader.memories.ids(scope))
            return sorted(with_derived(reader, chosen, source and as_source(source), token))

    def quarantine(self, memory_ids: Sequence[int], why: str) -> None:
        """Take memories out of use, in every process, from its next call on."""
        with self._storage.write() as writer:
            writer.hold(memory_ids, QUARANTINED, why)


def is_stored_again(reader: Reader, memory: Memory) -> bool:
    """Return whether the text of a deleted memory was stored again. People repeat prompts: that is another memory."""
    found = reader.memories.find_copy({name: getattr(memory, name) for name in KEY})
    is_same = memory.memory_type != MemoryKind.INPUT_PROMPT
    return found is not None and (is_same or reader.memories.get(found).created_at == memory.created_at)


def require_held(reader: Reader, memory_ids: Collection[int]) -> dict[int, Hold]:
    """Return how memories are held back, by id. Raises NotFoundError if one is not."""
    held = {one.memory_id: one for one in reader.lifecycle.held() if one.memory_id in memory_ids}
    if missing := set(memory_ids) - held.keys():
        raise NotFoundError(f"Memory {min(missing)} is not held back: `vector-memory review` lists those that are.")
    return held


def with_derived(reader: Reader, chosen: Iterable[int], source: str | None, token: str | None) -> set[int]:
    """Add to memories those of a source and of a token, and whatever was derived from any of them."""
    found, derived = set(chosen), dict[int, list[int]]()
    for number, came_from, about in reader.memories.derivations():
        sources = came_from.get("sources", [])
        if (source and any(is_below(one, source) for one in sources)) or (token and came_from.get("token") == token):
            found.add(number)
        for parent in [*derived_from(came_from), *([about] if about else [])]:
            derived.setdefault(parent, []).append(number)
    waiting = list(found)
    while waiting:
        new = set(derived.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def is_below(source: str, place: str) -> bool:
    """Return whether a source is a place, or an address below it."""
    rest = source.removeprefix(place)
    return source == place or (rest != source and (place.endswith("/") or rest[0] in "/?#"))
