"""Storing files: each as a memory of its own, or in step with what was stored of them before."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from vector_memory.cli.commands.ingest_files import SUFFIXES, facts_of, files_of, folder_of, sources_below, text_of
from vector_memory.cli.terminal import progress
from vector_memory.domain import MemoryFields, MemoryKind, NewMemory, Scope
from vector_memory.domain.validation import MAX_TAGS
from vector_memory.errors import ChunkingError, DuplicateMemoryError, ValidationError
from vector_memory.sessions.sync import SOURCE, Sync
from vector_memory.store import SessionMemoryStore

State = Literal["stored", "updated", "unchanged", "removed", "skipped", "failed"]

DEBOUNCE_MS = 2_000
"""Changes are gathered for so long at most ..."""

QUIET_MS = 500
"""... or until there are none for so long."""

LOOK_MS = 1_000
"""After so long without a change it is certain that the folders are watched."""


class Outcome(NamedTuple):
    """The outcome for a file. `memory_id`: the memory that contains its text, even if it existed before."""

    file: str
    state: State
    memory_id: int | None = None
    reason: str | None = None


class Ingestion:
    """Stores files as memories of one kind that differ in nothing but what comes from the file."""

    def __init__(self, store: SessionMemoryStore, kind: MemoryKind, fields: MemoryFields) -> None:
        self._store = store
        self._kind = kind
        self._fields = fields
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

        def add(file: str, source: str | None) -> Outcome:
            nonlocal outdated
            text = text_of(file)
            stored = self._store.store_memory(self._kind, text, **self._fields_of(file, text, source))
            outdated += source is not None and sync.is_outdated(source, text)
            return Outcome(file, "stored", stored.memory_id)

        return _outcomes(files_of(words), add), outdated

    def synced(self, words: Sequence[str]) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of those that are gone.

        Only folders that are given can tell that a file is gone.
        """
        sync = self._sync()
        files = files_of(words)
        gone = sorted(set(sources_below(words, sync.sources())) - set(files.values()))

        def put(file: str, source: str | None) -> Outcome:
            text = text_of(file)
            fields = self._fields_of(file, text, source)
            state, memory_id = sync.put(str(source), NewMemory.of(self._kind, text, **fields), gone)
            return Outcome(file, state, memory_id)

        outcomes = _outcomes(files, put)
        outcomes += [Outcome(source, "removed", memory_id) for source, memory_id in sync.remove(gone)]
        if any(outcome.state in {"updated", "removed"} for outcome in outcomes):
            sync.finish()
        return outcomes

    def _sync(self) -> Sync:
        return self._store.sync(self._scope)

    def _fields_of(self, file: str, text: str, source: str | None) -> MemoryFields:
        fields = self._fields | facts_of(file, text)
        fields["tags"] = list(dict.fromkeys([*(self._fields.get("tags") or ()), *(fields.get("tags") or ())]))[
            :MAX_TAGS
        ]
        fields["metadata"] = None if source is None else {SOURCE: source}
        return fields


def _outcomes(files: dict[str, str | None], store: Callable[[str, str | None], Outcome]) -> list[Outcome]:
    outcomes = []
    with progress("Storing") as update:
        for file, source in files.items():
            outcomes.append(_outcome(file, source, store))
            update(len(outcomes), len(files))
    return outcomes


def _outcome(file: str, source: str | None, store: Callable[[str, str | None], Outcome]) -> Outcome:
    """Store a file. An invalid file does not stop the others; a failure of the database does."""
    try:
        return store(file, source)
    except DuplicateMemoryError as error:
        return Outcome(file, "skipped", error.memory_id, f"Memory {error.memory_id} has the same text.")
    except (ValidationError, ChunkingError) as error:
        return Outcome(file, "failed", reason=str(error))


def changes_in(words: Sequence[str]) -> Iterator[None]:
    """Yield after each change in the folders that are given, or that contain the files.

    And once when they are being watched: something may have changed just before.
    """
    import watchfiles

    folders = {folder_of(word) for word in words}

    def matters(_change: watchfiles.Change, path: str) -> bool:
        """Whether it may be a change of a file. What is gone may have been a folder of them."""
        return Path(path).suffix.lower() in SUFFIXES or not Path(path).is_file()

    is_first = True
    for changes in watchfiles.watch(
        *folders,
        watch_filter=matters,
        debounce=DEBOUNCE_MS,
        step=QUIET_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
    ):
        if changes or is_first:
            yield
        is_first = False
