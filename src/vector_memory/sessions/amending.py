"""Changes what stands beside a memory's text: its title, description and tags, and whether it is pinned."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vector_memory.chunking import title_of
from vector_memory.domain import MemoryKind, utc_now
from vector_memory.domain.validation import (
    MAX_DESCRIPTION,
    MAX_TITLE,
    as_title,
    check_optional_label,
    check_tags,
    parse_id,
)
from vector_memory.errors import ValidationError
from vector_memory.indexing.background import BackgroundVectors
from vector_memory.indexing.indexer import is_chunked
from vector_memory.results.documents import AmendResult
from vector_memory.sessions.writer import MemoryWriter
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Memory
from vector_memory.storage.unit_text import words_of

NOTE = "a tagged note, whose tags have canonical forms: store its text again with the tags that it lacks."


class Amending:
    """Amends memories. Their texts are never changed."""

    def __init__(self, storage: Storage, background: BackgroundVectors, writer: MemoryWriter) -> None:
        self._storage = storage
        self._background = background
        self._writer = writer

    def pin(self, memory_id: str | int, *, pinned: bool) -> AmendResult:
        """Pin a memory, so that neither its age nor a policy removes it, or unpin it. Raises NotFoundError."""
        number = parse_id("memory_id", memory_id)
        with self._storage.write() as writer:
            memory = writer.memory(number)
            writer.pin(number, pinned=pinned)
        return amended(memory, f"{'Pinned' if pinned else 'Unpinned'} {memory.memory_type} {number}.")

    def tag(self, memory_id: str | int, *, add: Sequence[str], remove: Sequence[str]) -> AmendResult:
        """Add tags to a memory, and remove others. Raises NotFoundError, ValidationError."""
        number, added = parse_id("memory_id", memory_id), self._checked(None, None, add)["tags"]
        remove = self._writer.kept(list(remove))
        with self._storage.write() as writer:
            before = writer.memory(number)
            tags = [one for one in dict.fromkeys([*before.tags, *added]) if one not in remove]
            after = changed(before, {"tags": list(check_tags(tags))})
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
        number, values = parse_id("memory_id", memory_id), self._checked(title, description, tags)
        while True:
            with self._storage.read() as reader:
                before, chunks = reader.memory(number), [part.chunk for part in reader.chunks_of(number)]
            after = changed(before, values)
            words = None
            if after.title != before.title:
                words = words_of(after.title, after.content, chunks, chunked=is_chunked(after.memory_type))
            with self._storage.write() as writer:
                now = writer.memory(number)
                if (now.title, now.chunk_count) != (before.title, before.chunk_count):
                    continue  # another process was faster: its words are others
                after = changed(now, values)
                lacks_vectors = writer.amend(after, words, utc_now())
                if lacks_vectors:
                    self._background.defer(writer, number, promised=self._background.defers)
            if lacks_vectors:
                self._background.begin()
            self._storage.purge_deleted()
            return amended(after, f"Amended {after.memory_type} {number}.")

    def _checked(self, title: str | None, description: str | None, tags: Sequence[str] | None) -> dict[str, Any]:
        """Return the values that a caller has sent. Raises ValidationError."""
        sent: dict[str, Any] = {}
        if title is not None:
            sent["title"] = check_optional_label("title", title or None, MAX_TITLE)
        if description is not None:
            sent["description"] = check_optional_label("description", description or None, MAX_DESCRIPTION)
        if tags is not None:
            sent["tags"] = list(check_tags(tags))
        if not sent:
            raise ValidationError("There is nothing to change: send a title, a description or tags.")
        return self._writer.kept(sent)


def changed(memory: Memory, values: dict[str, Any]) -> Memory:
    """Return a memory with new values. A document without a title has that of its text. Raises ValidationError."""
    if memory.memory_type == MemoryKind.TAGGED and "tags" in values:
        raise ValidationError(f"Memory {memory.id} is {NOTE}")
    after = replace(memory, **values)
    if after.memory_type == MemoryKind.KNOWLEDGE_BASE:  # where the title is required, and kept in the metadata, too
        if after.title is None:
            raise ValidationError("A knowledge base entry needs a title: send another one.")
        after = replace(after, metadata=after.metadata | {"title": after.title})
    if after.title is None and is_chunked(after.memory_type):
        after = replace(after, title=as_title(title_of(after.content)))
    return after


def amended(memory: Memory, message: str) -> AmendResult:
    """Return what stands beside the text of a memory now."""
    return AmendResult(
        message=message, memory_id=memory.id, title=memory.title, description=memory.description, tags=memory.tags
    )
