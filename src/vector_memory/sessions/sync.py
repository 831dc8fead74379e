"""Keeps memories in step with the files that they were made of."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from vector_memory.domain import NewMemory, Scope
from vector_memory.sessions.deletion import Deletion
from vector_memory.sessions.writer import MemoryWriter
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Expendable

SOURCE = "source"
"""The key of a memory's metadata that names its file."""


class Known(NamedTuple):
    """A memory that was made of a file."""

    id: int
    content_hash: str


class Synced(NamedTuple):
    """What became of a file's memory."""

    state: Literal["stored", "updated", "unchanged"]
    memory_id: int


class Sync:
    """The memories of a scope by their `source`, as they were when it was made and as it changes them since.

    A file has one memory. The new text replaces the previous one in one transaction, so that whatever happens, one of
    them is there.
    """

    def __init__(self, storage: Storage, writer: MemoryWriter, deletion: Deletion, scope: Scope) -> None:
        self._storage = storage
        self._writer = writer
        self._deletion = deletion
        self._known: dict[str, list[Known]] = defaultdict(list)
        with storage.read() as reader:
            for memory in reader.memories(reader.ids(scope)).values():
                source = memory.metadata.get(SOURCE)
                if isinstance(source, str):
                    self._known[source].append(Known(memory.id, memory.content_hash))

    def sources(self) -> list[str]:
        """Return the files that have memories."""
        return list(self._known)

    def is_outdated(self, source: str, content: str) -> bool:
        """Return whether a file has a memory with another text."""
        content_hash = self._writer.hash_of_stored(content)
        return any(known.content_hash != content_hash for known in self._known.get(source, ()))

    def put(self, source: str, new: NewMemory, gone: Collection[str] = ()) -> Synced:
        """Store the text of a file in place of its previous one.

        `gone`: files that are no longer there. A memory of one of them with the same text is replaced too, because the
        file was renamed. Raises as `MemoryWriter.write`.
        """
        content_hash = self._writer.hash_of_stored(new.content)
        previous = self._known.get(source, [])
        same = [known for known in previous if known.content_hash == content_hash]
        if same:
            kept, *others = [*same, *(known for known in previous if known not in same)]
            self._delete(others)
            self._known[source] = [kept]
            return Synced("updated" if others else "unchanged", kept.id)
        renamed = [known for name in gone for known in self._known.get(name, ()) if known.content_hash == content_hash]
        saved = self._writer.write(new, replacing=[known.id for known in (*previous, *renamed)])
        for name in gone:
            self._known[name] = [known for known in self._known.get(name, ()) if known not in renamed]
        self._known[source] = [Known(saved.id, content_hash)]
        return Synced("updated" if previous or renamed else "stored", saved.id)

    def remove(self, sources: Iterable[str]) -> list[tuple[str, int]]:
        """Delete the memories of files that are gone; return the files and the ids."""
        removed = [(source, known) for source in sources for known in self._known.pop(source, ())]
        self._delete([known for _, known in removed])
        return [(source, known.id) for source, known in removed]

    def finish(self) -> None:
        """Overwrite the bytes of what was replaced and removed."""
        self._storage.purge_deleted()

    def _delete(self, memories: Iterable[Known]) -> None:
        self._deletion.delete_each([Expendable(known.id, 0) for known in memories])
