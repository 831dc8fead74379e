"""Records of deleted memories, so that their texts stay gone when the sources are read again: the table `traces`.

A trace is a keyed hash of a text and its origin, with the times at which the memory was created and deleted. It does
not reveal the text. Each memory has a random key, and the keys of memories whose records it took over.
"""

import hmac
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import PurePath
from secrets import token_bytes
from typing import NamedTuple

from vector_memory.domain import MemoryKind, NewMemory
from vector_memory.storage.connection import Queries, Query
from vector_memory.storage.damaged import DamagedError, as_json, object_in

KEY_BYTES, DIGEST_BYTES = 32, 16


class Deleted(NamedTuple):
    """What is read of a memory before it is deleted, or before that is undone."""

    memory_type: str
    session_id: str | None
    metadata: str
    content_hash: str
    created_at: str
    chunk_count: int
    held: str | None


class DeletedText(NamedTuple):
    """A row of `traces`, whose name in files cannot change without another version of them."""

    digest: bytes
    created_at: str
    deleted_at: str


class DeletedTexts(NamedTuple):
    """All rows of `traces`, and the keys of their hashes."""

    keys: list[bytes]
    rows: list[DeletedText]


class DeletionQueries(Queries):
    """Recognizes texts whose memories were deleted."""

    @cached_property
    def keys(self) -> list[bytes]:
        """The keys of the hashes."""
        return self.connection.fetch_column("select key from trace_keys order by key {exempt:random numbers}")

    def get_all(self) -> DeletedTexts:
        """Return all deleted memories, in a fixed order."""
        sql = "select digest, created_at, deleted_at from traces order by digest, created_at"
        return DeletedTexts(self.keys, self.connection.fetch(DeletedText, sql))

    def of(self, new: NewMemory, hashes: Iterable[str]) -> list[DeletedText]:
        """Return the deleted memories whose text had one of these hashes, of the same kind and origin.

        A file outside repositories has the root that a command names, which may be any folder above it.
        """
        self.connection.require(new.session_id)
        sql = "select digest, created_at, deleted_at from traces where digest = %(digest)s {exempt:of this session}"
        root = new.metadata.get("root")
        folders = [None] if root is None else PurePath(str(root), str(new.metadata.get("source"))).parents
        asked = [
            Query(DeletedText, sql, {"digest": keyed_hash(key, str(new.kind), new.session_id, folder, content_hash)})
            for key in self.keys
            for content_hash in set(hashes)
            for folder in folders
        ]
        return [one for found in self.connection.batch(*asked) for one in found] if asked else []


class DeletionChanges(Queries):
    """Records what is deleted."""

    deletions: DeletionQueries

    def note_deletion(self, memory: Deleted) -> None:
        """Note that a memory is deleted, unless it has neither a session nor a file, and so no source."""
        root = root_of(memory)
        if memory.session_id is None and root is None:
            return
        if not self.deletions.keys:
            self.deletions.keys.append(token_bytes(KEY_BYTES))
            self.connection.insert("trace_keys", [{"key": self.deletions.keys[0]}])
        digest = keyed_hash(self.deletions.keys[0], memory.memory_type, memory.session_id, root, memory.content_hash)
        sql = """
            insert into traces (digest, created_at, deleted_at) values (%(digest)s, %(created_at)s, {utc})
            on conflict (digest, created_at) do update set deleted_at = excluded.deleted_at
        """
        self.connection.later(sql, {"digest": digest, "created_at": memory.created_at})

    def forget_deletion(self, memory: Deleted) -> None:
        """Forget that a memory was deleted."""
        of_memory = memory.memory_type, memory.session_id, root_of(memory), memory.content_hash
        sql = "delete from traces where digest = %(digest)s and created_at = %(created_at)s"
        for key in self.deletions.keys:
            self.connection.later(sql, {"digest": keyed_hash(key, *of_memory), "created_at": memory.created_at})

    def add_deletions(self, deletions: DeletedTexts) -> None:
        """Add what was deleted from another memory, with the keys."""
        self.connection.insert("trace_keys", [{"key": key} for key in deletions.keys], "on conflict do nothing")
        self.connection.insert("traces", [one._asdict() for one in deletions.rows], "on conflict do nothing")
        self.deletions.__dict__.pop("keys", None)

    def set_deletions(self, deletions: DeletedTexts) -> None:
        """Replace all records by those of another memory."""
        self.connection.later("delete from traces")
        self.connection.later("delete from trace_keys")
        self.add_deletions(deletions)

    def forget_deletions(self, new: NewMemory, hashes: Iterable[str]) -> None:
        """Forget that a text was deleted, because it is wanted again."""
        for digest in {one.digest for one in self.deletions.of(new, hashes)}:
            self.connection.later("delete from traces where digest = %(digest)s", {"digest": digest})


def root_of(memory: Deleted) -> object:
    """Return the root of a memory's file; None: it has none."""
    with suppress(DamagedError):
        return object_in(memory.metadata).get("root")
    return None


def covers(deletion: DeletedText, new: NewMemory) -> bool:
    """Return whether a source's text is a deleted memory's, given the same text and origin.

    A prompt matches only if it was written at the same time, because people repeat themselves. Any other memory
    represented all its repetitions until it was deleted. A file has its text until it is edited.
    """
    if "root" in new.metadata:
        return True
    if new.kind is MemoryKind.INPUT_PROMPT:
        return deletion.created_at == new.created_at
    return new.created_at is not None and new.created_at <= max(deletion.deleted_at, deletion.created_at)


def keyed_hash(key: bytes, kind: str, session_id: str | None, root: object, content_hash: str) -> bytes:
    """Return the keyed hash of a text's hash and its origin: its kind with its session, and the folder of its file.

    Not the agent, whose name depends on who reports it, nor the path, so that a renamed file is the same.
    """
    origin = as_json([kind, session_id, None if root is None else str(root), content_hash])
    return hmac.digest(key, origin.encode(), "sha256")[:DIGEST_BYTES]
