"""Changes a memory's title, description, tags and pin, but never its text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vector_memory.answers.documents import AmendResult, SupersedeResult
from vector_memory.domain import MemoryKind, utc_now, validation
from vector_memory.errors import ValidationError
from vector_memory.search.copies import repeats
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.postings import words_of
from vector_memory.storage.queries.lifecycle import PENDING
from vector_memory.storage.records import Memory
from vector_memory.texts.structure import title_of
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.indexer import is_chunked
from vector_memory.writing.writer import MemoryWriter, require_existing

NOTE = "a tagged note, whose tags have canonical forms: store its text again with the tags that it lacks."


class Amending:
    """Amends memories. Their texts are never changed."""

    def __init__(self, storage: Storage, background: BackgroundVectors, writer: MemoryWriter) -> None:
        self._storage = storage
        self._background = background
        self._writer = writer

    def pin(self, memory_id: str | int, *, pinned: bool) -> AmendResult:
        """Pin a memory, so that neither its age nor a policy removes it, or unpin it. Raises NotFoundError."""
        number = validation.parse_id("memory_id", memory_id)
        with self._storage.write() as writer:
            memory = writer.memories.get(number)
            writer.pin(number, pinned=pinned)
        return amended(memory, f"{'Pinned' if pinned else 'Unpinned'} {memory.memory_type} {number}.")

    def tag(self, memory_id: str | int, *, add: Sequence[str], remove: Sequence[str]) -> AmendResult:
        """Add tags to a memory, and remove others. Raises NotFoundError, ValidationError."""
        number, added = validation.parse_id("memory_id", memory_id), self._checked(None, None, add)["tags"]
        remove = self._writer.kept(list(remove))
        with self._storage.write() as writer:
            before = writer.memories.get(number)
            tags = [one for one in dict.fromkeys([*before.tags, *added]) if one not in remove]
            after = changed(before, {"tags": list(validation.check_tags(tags))})
            writer.amend(after, None, utc_now())
        self._storage.purge_deleted()
        return amended(after, f"Tagged {after.memory_type} {number}.")

    def amend(
        self, memory_id: str | int, *, title: str | None, description: str | None, tags: Sequence[str] | None
    ) -> AmendResult:
        """Change the title, the description or the tags of a memory; None leaves one as it is, "" or [] removes it.

        Its new words find it at once, and the bytes of the old ones are overwritten. If its vectors embed the title,
        they are recomputed in the background. Raises NotFoundError, ValidationError.
        """
        number, values = validation.parse_id("memory_id", memory_id), self._checked(title, description, tags)
        while True:
            with self._storage.read() as reader:
                before, chunks = reader.memories.get(number), [part.chunk for part in reader.chunks.of(number)]
            after = changed(before, values)
            words = None
            if after.title != before.title:
                words = words_of(after.title, after.content, chunks, chunked=is_chunked(after.memory_type))
            with self._storage.write() as writer:
                now = writer.memories.get(number)
                if (now.title, now.chunk_count) != (before.title, before.chunk_count):
                    continue  # another process was faster: its words differ
                after, awaits = self._writer.amended(changed(now, values))
                lacks_vectors = writer.amend(after, words, utc_now())
                if awaits is not None:
                    writer.hold([number], PENDING, awaits)
                if lacks_vectors:
                    self._background.defer(writer, number, promised=self._background.defers)
            if lacks_vectors:
                self._background.begin()
            self._storage.purge_deleted()
            return amended(after, f"Amended {after.memory_type} {number}.")

    def _checked(self, title: str | None, description: str | None, tags: Sequence[str] | None) -> dict[str, Any]:
        """Check the values that a caller sent. Raises ValidationError."""
        sent: dict[str, Any] = {}
        if title is not None:
            sent["title"] = validation.check_optional_label("title", title or None, validation.MAX_TITLE)
        if description is not None:
            sent["description"] = validation.check_optional_label(
                "description", description or None, validation.MAX_DESCRIPTION
            )
        if tags is not None:
            sent["tags"] = list(validation.check_tags(tags))
        if not sent:
            raise ValidationError("There is nothing to change: send a title, a description or tags.")
        return self._writer.kept(sent)


def changed(memory: Memory, values: dict[str, Any]) -> Memory:
    """Return a memory with new values. A document without a title has that of its text. Raises ValidationError."""
    if memory.memory_type == MemoryKind.TAGGED and "tags" in values:
        raise ValidationError(f"Memory {memory.id} is {NOTE}")
    after = replace(memory, **values)
    if after.memory_type == MemoryKind.KNOWLEDGE_BASE:  # where the title is required, and also kept in the metadata
        if after.title is None:
            raise ValidationError("A knowledge base entry needs a title: send another one.")
        after = replace(after, metadata=after.metadata | {"title": after.title})
    if after.title is None and is_chunked(after.memory_type):
        after = replace(after, title=validation.as_title(title_of(after.content)))
    return after


def amended(memory: Memory, message: str) -> AmendResult:
    """Return a memory's current title, description, tags and pin."""
    return AmendResult(
        message=message, memory_id=memory.id, title=memory.title, description=memory.description, tags=memory.tags
    )


# Marks stored memories as superseded by later ones, or no longer.


class Superseding:
    """Changes which stored memories supersede others."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def supersede(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Make a memory supersede others, which must have been stored before it, so there are no cycles.

        Raises NotFoundError, ValidationError.
        """
        newer, older = ordered_ids(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            writer.supersede(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} supersedes {as_list(older)}.")

    def merge(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Make a memory supersede others whose texts it repeats; it gets their tags, and their pin if any has one.

        Raises ValidationError if it does not repeat all of them, NotFoundError.
        """
        newer, older = ordered_ids(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            kept, *merged = (writer.memories.get(number) for number in (newer, *older))
            others = [one.id for one in merged if not repeats(kept, one)]
            if others:
                raise ValidationError(f"Memory {newer} does not repeat all of memory {others[0]}: nothing changed.")
            tags = validation.check_tags(list(dict.fromkeys(tag for one in (kept, *merged) for tag in one.tags)))
            if kept.memory_type != MemoryKind.TAGGED and list(tags) != kept.tags:
                writer.amend(replace(kept, tags=list(tags)), None, utc_now())
            if any(one.pinned for one in merged):
                writer.pin(newer, pinned=True)
            writer.supersede(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} supersedes its near copies {as_list(older)}.")

    def release(self, memory_id: str | int, older_ids: Sequence[str | int]) -> SupersedeResult:
        """Stop a memory from superseding others: they are current again, unless another memory supersedes them.

        Raises ValidationError if it does not supersede one of them, NotFoundError.
        """
        newer, older = ids_from(memory_id, older_ids)
        with self._storage.write() as writer:
            require_existing(writer, [newer, *older])
            kept = set(older).difference(link.older_id for link in writer.lifecycle.superseded_by([newer]))
            if kept:
                raise ValidationError(f"Memory {newer} does not supersede memory {min(kept)}: nothing was changed.")
            writer.release(newer, older)
            return superseded_now(writer, newer, f"Memory {newer} no longer supersedes {as_list(older)}.")


def ids_from(memory_id: str | int, older_ids: Sequence[str | int]) -> tuple[int, tuple[int, ...]]:
    """Return the ids that a caller has sent. Raises ValidationError."""
    newer, older = validation.parse_id("memory_id", memory_id), validation.parse_ids("older_ids", older_ids)
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
        memory_id=newer, supersedes=[link.older_id for link in writer.lifecycle.superseded_by([newer])], message=message
    )


def as_list(memory_ids: Sequence[int]) -> str:
    """Format ids as text."""
    return ", ".join(map(str, memory_ids))
