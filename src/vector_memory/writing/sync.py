"""Keeps memories in sync with the files that they came from."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from vector_memory.domain import ANY, NewMemory, Scope
from vector_memory.errors import DeletedEarlierError
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Imprint
from vector_memory.writing.deletion import Deletion
from vector_memory.writing.writer import MemoryWriter


class Origin(NamedTuple):
    """Where a memory's file is, according to its metadata: `source` is its path below the folder `root`."""

    root: str
    source: str


class Synced(NamedTuple):
    """The outcome for a file's memory; None if there is none, because its text was deleted earlier."""

    state: Literal["stored", "updated", "unchanged", "deleted_earlier"]
    memory_id: int | None


class Sync:
    """A scope's memories by their files, as they were at the beginning and as it has changed them since.

    A file has one current memory. Texts are replaced in one transaction, so that no text of an existing file is ever
    missing. `keep_replaced`: an edited text supersedes the earlier one instead of deleting it. Kept texts are deleted
    with their file.
    """

    def __init__(
        self, storage: Storage, writer: MemoryWriter, deletion: Deletion, scope: Scope, *, keep_replaced: bool = False
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._deletion = deletion
        self._keep_replaced = keep_replaced
        self._superseded: dict[Origin, list[int]] = defaultdict(list)
        self._known: dict[Origin, list[Imprint]] = defaultdict(list)
        self._kept: dict[Origin, Imprint] = {}
        self._awaited: Collection[str] = ()
        self._by_hash: dict[str, list[Imprint]] = defaultdict(list)
        self._settled: set[int] = set()
        with storage.read() as reader:
            current = set(reader.memories.ids(scope))
            for memory in reader.memories.imprints(replace(scope, as_of=ANY)):
                root, source = memory.metadata.get("root"), memory.metadata.get("source")
                if isinstance(root, str) and isinstance(source, str):
                    if memory.id in current:
                        self._known[Origin(root, source)].append(memory)
                    else:
                        self._superseded[Origin(root, source)].append(memory.id)

    def origins(self) -> list[Origin]:
        """Return the files that have memories."""
        return list(self._known)

    def hash_of(self, content: str) -> str:
        """Return the hash by which a file's text is compared with a stored one, from which secrets may be removed."""
        return self._writer.hash_of_stored(content)

    def is_outdated(self, origin: Origin, content: str) -> bool:
        """Return whether a file has a memory with another text."""
        content_hash = self.hash_of(content)
        return any(known.content_hash != content_hash for known in self._known.get(origin, ()))

    def expect(self, wanted: Mapping[Origin, str], gone: Iterable[Origin]) -> None:
        """Compare the memories with the files before storing any: texts may have moved from one file to another.

        `wanted`: the hashes of the files' texts. `gone`: files that no longer exist, or no longer have text. The
        memories of all other files stay as they are.
        """
        self._known = {origin: self._known[origin] for origin in (*wanted, *gone) if origin in self._known}
        for origin, each in self._known.items():
            for known in each:
                if known.content_hash == wanted.get(origin):
                    self._kept.setdefault(origin, known)
                self._by_hash[known.content_hash].append(known)
        self._settled = {known.id for known in self._kept.values()}
        self._awaited = {content_hash for origin, content_hash in wanted.items() if origin not in self._kept}

    def is_kept(self, origin: Origin) -> bool:
        """Return whether a file has a memory with its text."""
        return origin in self._kept

    def put(self, origin: Origin, new: Callable[[], NewMemory]) -> Synced:
        """Store the text of a file in place of its previous one, or move a memory to this file.

        `new` is called unless a memory has the text. A previous text that another file has now stays until that file is
        stored. A text that was deleted here stays gone until the file is edited. Raises as `MemoryWriter.write`.
        """
        mine = [known for known in self._known.get(origin, ()) if known.content_hash not in self._awaited]
        if origin in self._kept:
            replaced, kept_id = self._unsettled(mine), self._kept[origin].id
            superseded = self._supersede(kept_id, replaced) if self._keep_replaced else []
            self._delete([number for number in replaced if number not in superseded])
            self._settled.update(superseded)
            return Synced("updated" if replaced else "unchanged", kept_id)
        self._writer.require_kept(**{"The path": "/".join(origin)})
        memory = new()
        alike = [*mine, *self._by_hash.get(self.hash_of(memory.content), ())]
        replaced = self._unsettled(alike)
        self._writer.recall([known.id for known in alike])
        kept = self._edited(mine, memory) if self._keep_replaced else []
        if kept:  # the file's date is its first text's
            memory = replace(memory, supersedes=(*memory.supersedes, *kept), created_at=None)
        try:
            unkept = [number for number in replaced if number not in kept]
            saved = self._writer.write(memory, replacing=unkept, from_source=True)
        except DeletedEarlierError:
            self._delete(self._unsettled(mine))
            return Synced("deleted_earlier", None)
        self._settled.update(replaced)
        return Synced("updated" if replaced else "stored", saved.id)

    def remove_rest(self) -> list[tuple[Origin, int]]:
        """Delete the remaining earlier texts of the files, with those they superseded; return the files and the ids."""
        rest = [(origin, number) for origin, each in self._known.items() for number in self._unsettled(each)]
        ids = [number for _, number in rest]
        self._writer.recall(ids)  # it may reappear in a moment
        # The oldest first: otherwise what the newest superseded would be current in the meantime.
        for origin in {origin for origin, _ in rest}:
            self._delete(self._superseded.pop(origin, []))
        self._delete(ids)
        return rest

    def _edited(self, mine: Iterable[Imprint], memory: NewMemory) -> list[int]:
        """Return the file's current memories whose text is not its new one."""
        content_hash = self.hash_of(memory.content)
        return self._unsettled(known for known in mine if known.content_hash != content_hash)

    def _supersede(self, memory_id: int, replaced: Iterable[int]) -> list[int]:
        """Make a memory supersede the earlier ones of these; return them."""
        with self._storage.write() as writer:
            older = list(writer.memories.origins([number for number in replaced if number < memory_id]))
            if older and writer.memories.origins([memory_id]):
                writer.supersede(memory_id, older)
            return older

    def _unsettled(self, memories: Iterable[Imprint]) -> list[int]:
        return [known.id for known in memories if known.id not in self._settled]

    def _delete(self, ids: Sequence[int]) -> None:
        self._deletion.delete_each(ids, for_good=False)  # the files may come back
        self._settled.update(ids)

    def finish(self) -> None:
        """Overwrite the bytes of replaced and removed texts."""
        self._storage.purge_deleted()
