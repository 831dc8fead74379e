"""Says of stored memories that later ones replace them, or no longer do."""

from collections.abc import Sequence
from dataclasses import replace

from vector_memory.domain import MemoryKind, utc_now
from vector_memory.domain.validation import check_tags, parse_id, parse_ids
from vector_memory.errors import ValidationError
from vector_memory.results.documents import SupersedeResult
from vector_memory.search.copies import repeats
from vector_memory.sessions.writer import require_existing
from vector_memory.storage.base import Storage, Writer


class Superseding:
    """Changes which stored memories supersede others."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def supersede(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Let a memory supersede others, which must have been stored before it: so there are no cycles.

        Raises NotFoundError, ValidationError.
        """
        newer, older = ordered_ids(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            writer.supersede(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} supersedes {as_list(older)}.")

    def merge(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Let a memory supersede others whose texts it repeats, and have their tags, and be pinned if one of them is.

        Raises ValidationError if it does not say all that they say, NotFoundError.
        """
        newer, older = ordered_ids(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            kept, *merged = (writer.memory(number) for number in (newer, *older))
            others = [one.id for one in merged if not repeats(kept, one)]
            if others:
                raise ValidationError(f"Memory {newer} does not say all that memory {others[0]} says: nothing changed.")
            tags = check_tags(list(dict.fromkeys(tag for one in (kept, *merged) for tag in one.tags)))
            if kept.memory_type != MemoryKind.TAGGED and list(tags) != kept.tags:
                writer.amend(replace(kept, tags=list(tags)), None, utc_now())
            if any(one.pinned for one in merged):
                writer.pin(newer, pinned=True)
            writer.supersede(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} supersedes its near copies {as_list(older)}.")

    def release(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Let a memory no longer supersede others: they are current again, unless another memory supersedes them.

        Raises ValidationError if it does not supersede one of them, NotFoundError.
        """
        newer, older = ids_from(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            kept = set(older).difference(link.older_id for link in writer.superseded_by([newer]))
            if kept:
                raise ValidationError(f"Memory {newer} does not supersede memory {min(kept)}: nothing was changed.")
            writer.release(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} no longer supersedes {as_list(older)}.")


def ids_from(memory_id: str | int, older_ids: Sequence[str | int]) -> tuple[int, tuple[int, ...]]:
    """Return the ids that a caller has sent. Raises ValidationError."""
    newer, older = parse_id("memory_id", memory_id), parse_ids("older_ids", older_ids)
    if not older:
        raise ValidationError("Name at least one memory that it supersedes.")
    return newer, older


def ordered_ids(memory_id: str | int, older_ids: Sequence[str | int]) -> tuple[int, tuple[int, ...]]:
    """Return the ids that a caller has sent. Raises ValidationError unless the first memory was stored last."""
    newer, older = ids_from(memory_id, older_ids)
    later = [number for number in older if number >= newer]
    if later:
        raise ValidationError(
            f"Memory {later[0]} was not stored before memory {newer}, and only later memories supersede others: "
            f"store what is true now with supersedes=[{later[0]}]."
        )
    return newer, older


def superseded_now(writer: Writer, newer: int, message: str) -> SupersedeResult:
    """Return what a memory supersedes now."""
    return SupersedeResult(
        memory_id=newer, supersedes=[link.older_id for link in writer.superseded_by([newer])], message=message
    )


def as_list(memory_ids: Sequence[int]) -> str:
    """Return ids as text."""
    return ", ".join(map(str, memory_ids))
