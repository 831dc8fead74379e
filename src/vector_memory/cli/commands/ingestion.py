"""Storing files: each as a memory of its own, or in step with what was stored of them before."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from vector_memory.cli.commands.ingest_files import (
    NOWHERE,
    SUFFIXES,
    UnreadableFileError,
    below,
    facts_of,
    files_of,
    folder_of,
    text_of,
)
from vector_memory.cli.terminal import progress
from vector_memory.domain import MemoryFields, MemoryKind, NewMemory, Scope
from vector_memory.domain.validation import MAX_TAGS
from vector_memory.errors import ChunkingError, DuplicateMemoryError, ValidationError
from vector_memory.files.following import follow
from vector_memory.sessions.sync import Origin, Sync
from vector_memory.store import SessionMemoryStore

State = Literal["stored", "updated", "unchanged", "removed", "skipped", "failed"]


class Outcome(NamedTuple):
    """The outcome for a file. `memory_id`: the memory that contains its text, even if it existed before."""

    file: str
    state: State
    memory_id: int | None = None
    reason: str | None = None


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

        return _outcomes(self._files_of(words), add), outdated

    def synced(self, words: Sequence[str]) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of those that are gone.

        Only folders that are given can tell that a file is gone. A file whose text cannot be stored has no memory.
        """
        sync = self._sync()
        files = self._files_of(words)
        wanted, lost = self._compared(files, sync)
        gone = [*lost, *sorted(set(below(words, sync.origins())) - set(files.values()))]
        sync.expect(wanted, gone)

        def put(file: str, origin: Origin) -> Outcome:
            state, memory_id = sync.put(origin, self._memory_of(file, origin))
            return Outcome(file, state, memory_id)

        outcomes = _outcomes(files, put)
        outcomes += [Outcome(origin.source, "removed", memory_id) for origin, memory_id in sync.remove_rest()]
        if any(outcome.state in {"updated", "removed"} for outcome in outcomes):
            sync.finish()
        return outcomes

    def _compared(self, files: Files, sync: Sync) -> tuple[dict[Origin, str], list[Origin]]:
        """Return the hashes of the files' texts, and the files that have no text that can be stored."""
        wanted, lost = {}, []
        for file, origin in files.items():
            try:
                wanted[origin] = sync.hash_of(self._memory_of(file, origin).content)
            except UnreadableFileError:
                continue
            except ValidationError:
                lost.append(origin)
        return wanted, lost

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


def _outcomes(files: Files, store: Callable[[str, Origin], Outcome]) -> list[Outcome]:
    outcomes = []
    with progress("Storing") as update:
        for file, origin in files.items():
            outcomes.append(_outcome(file, origin, store))
            update(len(outcomes), len(files))
    return outcomes


def _outcome(file: str, origin: Origin, store: Callable[[str, Origin], Outcome]) -> Outcome:
    """Store a file. An invalid file does not stop the others; a failure of the database does."""
    try:
        return store(file, origin)
    except DuplicateMemoryError as error:
        return Outcome(file, "skipped", error.memory_id, f"Memory {error.memory_id} has the same text.")
    except (ValidationError, ChunkingError) as error:
        return Outcome(file, "failed", reason=str(error))


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
