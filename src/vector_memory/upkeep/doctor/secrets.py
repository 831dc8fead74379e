"""Finds secrets and private parts in what is stored, and removes them in place."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from vector_memory.domain.fields import NAMED, WRITTEN
from vector_memory.domain.user_files import read_file
from vector_memory.errors import DatabaseLockError, VectorMemoryError
from vector_memory.files.folder import MemoryFolder
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.records import Memory
from vector_memory.texts.redaction import REPLACED, redact, redact_within
from vector_memory.upkeep.backfill import EVERYTHING, Progress
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.outbox import Outbox
from vector_memory.writing.writer import hash_of

MAY_HAVE_SECRETS = (*NAMED, *sorted(WRITTEN))
"""Columns of a memory."""

MEMORIES_AT_ONCE = 100

FoundSecrets = Mapping[int | Path, Counter[str]]
"""What has secrets, with their numbers by kind: memories by id, and the files of memory files and of waiting texts."""


def without_secrets(value: Any) -> tuple[Any, Counter[str]]:
    """Return a JSON value without secrets, and how many of each kind were removed."""
    cleaned = redact_within(value)[0]
    before, after = (REPLACED.findall(json.dumps(one, ensure_ascii=False)) for one in (value, cleaned))
    return cleaned, Counter(one[len("[redacted: ") : -1] for one in (Counter(after) - Counter(before)).elements())


def cleaned_memory(memory: Memory) -> tuple[Memory, Counter[str]]:
    """Return a memory without secrets, and how many of each kind were removed."""
    texts, kinds = without_secrets({name: getattr(memory, name) for name in MAY_HAVE_SECRETS})
    texts |= {"tags": list(dict.fromkeys(texts["tags"])), "content_hash": hash_of(texts["content"])}
    return replace(memory, **texts), kinds


class Secrets:
    """Finds and removes secrets, while servers run. `outbox`: None: there is none. Finding changes nothing."""

    def __init__(self, storage: Storage, outbox: Outbox | None, folder: Path) -> None:
        self._storage, self._outbox, self._folder = storage, outbox, MemoryFolder(folder)

    def find(self, on_progress: Progress) -> FoundSecrets:
        """Return what has secrets: also what has expired, was superseded or is held back."""
        found: dict[int | Path, Counter[str]] = {path: without_secrets(value)[1] for path, value in self._files()}
        with self._storage.read() as reader:
            ids = reader.memories.ids(EVERYTHING)
        for start in range(0, len(ids), MEMORIES_AT_ONCE):
            with self._storage.read() as reader:
                some = read_whole(reader, ids[start : start + MEMORIES_AT_ONCE])
            found |= {memory.id: cleaned_memory(memory)[1] for memory in some}
            on_progress(min(start + MEMORIES_AT_ONCE, len(ids)), len(ids))
        return {place: kinds for place, kinds in found.items() if kinds}

    def remove(self, found: FoundSecrets, indexer: Indexer, on_progress: Progress) -> None:
        """Remove secrets, one memory after the other: a call that was interrupted can be repeated.

        What was removed is erased from log and file as soon as nobody reads it. The vectors are missing afterwards.
        Raises DatabaseLockError while a server stores the texts that wait.
        """
        for done, place in enumerate(found, start=1):
            while isinstance(place, int) and not self._is_rewritten(place, indexer):
                pass
            on_progress(done, len(found))
        with self._storage.write() as writer:
            writer.forget_tags([one.tag for one in writer.tags.canonical() if redact(one.tag).count])
            writer.defer_missing_vectors()
        self._storage.purge_deleted()
        has_texts = self._outbox is not None and self._outbox.folder.exists()
        with self._outbox.claimed() if self._outbox and has_texts else nullcontext(enter_result=True) as is_ours:
            if not is_ours:
                raise DatabaseLockError("A server is storing the texts that wait: run this again in a moment.")
            for path, value in self._files():
                if path in found:
                    cleaned = without_secrets(value)[0]
                    write_in_place(path, cleaned if isinstance(cleaned, str) else json.dumps(cleaned))

    def _is_rewritten(self, number: int, indexer: Indexer) -> bool:
        """Remove the secrets of a memory; False if it was changed in the meantime."""
        with self._storage.read() as reader:
            before = read_whole(reader, [number])
        for memory in before:
            after = cleaned_memory(memory)[0]
            derived = indexer.derived(after.memory_type, after.title, after.content)
            with self._storage.write() as writer:
                for now in read_whole(writer, [number]):
                    if any(getattr(now, name) != getattr(memory, name) for name in MAY_HAVE_SECRETS):
                        return False
                    after = replace(after, access_count=now.access_count, accessed_at=now.accessed_at)
                    writer.rewrite(replace(after, chunk_count=len(derived.chunks)), derived)
            self._storage.purge_deleted()
        return True

    def _files(self) -> Iterator[tuple[Path, Any]]:
        """Yield the memory files that are text, the texts that wait, and those that were set aside."""
        outbox = self._outbox
        for path in self._folder.scan():
            try:
                yield self._folder.path / path, self._folder.read(path)[0].decode()
            except (VectorMemoryError, UnicodeDecodeError):
                continue
        for waiting in [] if outbox is None else [*outbox.paths(), *(one.path for one in outbox.refused())]:
            try:
                yield waiting, json.loads(read_file(waiting, links=False))
            except (OSError, ValueError, RecursionError):
                continue  # stored meanwhile, or damaged


def read_whole(reader: Reader, ids: Sequence[int]) -> list[Memory]:
    """Return memories, those too that do not exist for readers."""
    return [one.memory for one in Portions(reader).whole(ids, bare=True)]


def write_in_place(path: Path, text: str) -> None:
    """Replace a file, with its permissions. Readers see the old file or the new one."""
    with draft_of(path, Rules(overwrite=True)) as draft, draft.open() as target:
        target.write(text.encode())
        target.flush()
        os.fchmod(target.fileno(), path.stat().st_mode & 0o777)
        draft.publish()
