"""Stores files: each as a memory, or in sync with the memories stored earlier."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from vector_memory.cli.commands.ingest_files import (
    NOWHERE,
    SUFFIXES,
    below,
    facts_of,
    files_of,
    folder_of,
    text_of,
)
from vector_memory.cli.terminal import progress
from vector_memory.domain import MemoryFields, MemoryKind, NewMemory, Scope
from vector_memory.domain.validation import MAX_TAGS
from vector_memory.files.following import follow
from vector_memory.files.syncing import FileSync, Outcome, outcome_of, status_of
from vector_memory.sessions.sync import Origin, Sync
from vector_memory.store import SessionMemoryStore


class LeftOut(NamedTuple):
    """What a folder contains and is not looked into, and why."""

    file: str
    reason: str


Files = dict[str, Origin]
"""The files to store, with their origins."""


class Ingestion:
    """Stores files as memories of one kind that differ in nothing but what comes from the file."""

    def __init__(self, store: SessionMemoryStore, kind: MemoryKind, fields: MemoryFields) -> None:
        self._store = store
        self._kind = kind
        self._fields = fields
        self._file_sync = FileSync(self._memory_of, status_of)
        self.left_out: list[LeftOut] = []
        self._scope = Scope(
            kind,
            agent_id=fields.get("agent_id"),
            session_id=fields.get("session_id"),
            session_iter=fields.get("session_iter") or 1,
            task_code=fields.get("task_code"),
            category=fields.get("category"),
        )

    def added(self, words: Sequence[str]) -> tuple[list[Outcome], int]:
        """Store files that are not stored; return the outcomes, and how many replaced nothing but an earlier text."""
        sync = self._sync()
        outdated = 0

        def add(file: str, origin: Origin) -> Outcome:
            nonlocal outdated
            text = text_of(file)
            stored = self._store.store_memory(self._kind, text, **self._fields_of(file, text, origin))
            outdated += sync.is_outdated(origin, text)
            return Outcome(file, "stored", stored.memory_id)

        files = self._files_of(words)
        with progress("Storing") as update:
            outcomes = []
            for file, origin in files.items():
                outcomes.append(outcome_of(file, partial(add, file, origin)))
                update(len(outcomes), len(files))
        return outcomes, outdated

    def synced(self, words: Sequence[str]) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of those that are gone.

        Only folders that are given can tell that a file is gone.
        """
        sync, files = self._sync(), self._files_of(words)
        gone = sorted(set(below(words, sync.origins())) - set(files.values()))
        with progress("Storing") as update:
            return self._file_sync.run(sync, files, gone, update)

    def _files_of(self, words: Sequence[str]) -> Files:
        self.left_out = []
        return files_of(words, lambda path, reason: self.left_out.append(LeftOut(path, reason)))

    def _sync(self) -> Sync:
        return self._store.sync(self._scope)

    def _memory_of(self, file: str, origin: Origin) -> NewMemory:
        text = text_of(file)
        return NewMemory.of(self._kind, text, **self._fields_of(file, text, origin))

    def _fields_of(self, file: str, text: str, origin: Origin) -> MemoryFields:
        fields = self._fields | facts_of(file, text)
        fields["tags"] = [*(self._fields.get("tags") or ()), *(fields.get("tags") or ())][:MAX_TAGS]
        fields["metadata"] = None if origin == NOWHERE else origin._asdict()
        return fields


def changes_in(words: Sequence[str]) -> Iterator[None]:
    """Yield after each change in the folders that are given, or that contain the files.

    And once when they are being watched: something may have changed just before.
    """

    def matters(_change: object, path: str) -> bool:
        """Whether it may be a change of a file. What is gone may have been a folder of them."""
        return Path(path).suffix.lower() in SUFFIXES or not Path(path).is_file()

    for is_watched in follow({folder_of(word) for word in words}, matters, threading.Event()):
        if is_watched:  # what is removed may come back in a moment
            yield
