"""Stores what is worth remembering of clients' transcripts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from vector_memory.clients.client import Sessions
from vector_memory.clients.reading.conversation import Message, Transcript, hashes_as_stored, storable
from vector_memory.clients.reading.lines import COMPRESSED, FormatError
from vector_memory.clients.registry import WITH_SESSIONS
from vector_memory.domain import CameFrom, MemoryKind, NewMemory, Way
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_IDENTIFIER, as_title
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
from vector_memory.settings import Redact, project_of
from vector_memory.settings.locations import checkouts, main_checkout, real_path
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.writer import hash_of

BATCH = 50
"""So many memories are stored in one transaction: other processes wait for the write lock only for a moment."""

PROJECT = "project"
"""The key of the metadata that holds the absolute path of the project."""

Progress = Callable[[int, int], None]
"""Called with the bytes read so far, and all bytes."""


class Unread(NamedTuple):
    """A transcript that was not read, or not all of it, and why."""

    path: Path
    reason: str


@dataclass(slots=True)
class ImportedSessions:
    """What an import did, or would do. `stored`: memories by kind. `redacted`: places that were replaced in them.

    `nul_characters`: those of their texts that were replaced by U+FFFD.
    `sessions`: those that something was stored of. `skipped`: memories that were stored before. `deleted_earlier`:
    those that were deleted since. `unknown`: lines of types that are not known here.
    """

    transcripts: int = 0
    stored: Counter[MemoryKind] = field(default_factory=Counter)
    sessions: set[str | None] = field(default_factory=set)
    skipped: int = 0
    deleted_earlier: int = 0
    redacted: int = 0
    nul_characters: int = 0
    unread: list[Unread] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)


class Importer:
    """Stores transcripts in a memory. `is_dry`: only counts.

    Replaces secrets and private parts if the setting `redact` says so, and never without `redacts`.

    Whatever is stored already, by a hook or an earlier import, is skipped. So is what was deleted, unless `again`.
    """

    def __init__(
        self, store: SessionMemoryStore, *, is_dry: bool = False, redacts: bool = True, again: bool = False
    ) -> None:
        self._store = store
        self._is_dry = is_dry
        self._again = again
        self._forms: dict[str, set[str]] = {}
        self._redacts = redacts and store.settings.redact is not Redact.OFF
        self._waiting: list[NewMemory] = []
        self._replaced: dict[str, tuple[int, int]] = {}
        self._sessions_of: dict[str, str] = {}
        self.result = ImportedSessions()

    def run(self, clients: Sequence[str], project: Path | None, on_progress: Progress) -> ImportedSessions:
        """Import the transcripts of a project, an absolute path, or all. Can be interrupted and repeated."""
        kept = [WITH_SESSIONS[name] for name in clients]
        variables = " or ".join(sorted({one.home.variable for one in kept}))
        if not any(one.home.found() for one in kept):
            raise ConfigurationError(f"No home directory to read sessions from: set {variables}.")
        folders: list[Path | None] = [None]
        if project is not None:
            folders, project = [project], main_checkout(project)
            folders += checkouts(project)
        # A client may copy a session into the one that continues it: the original is the one that ended before.
        try:
            found = dict.fromkeys(self._found(kept, folders))
            files = [(*changed_and_bytes(path), path, client) for client, path in found]
        except PermissionError:
            raise ConfigurationError(f"No permission to list the sessions: check {variables}.") from None
        done, total = 0, sum(size for _, size, _, _ in files)
        for _, size, path, client in sorted(files, key=itemgetter(0, 2)):
            try:
                transcript = client.read(path)
                if transcript is not None and is_about_project(transcript, project):
                    self._add(transcript)
            except (ValidationError, DatabaseError) as error:
                self.result.unread.append(Unread(path, str(error)))
            except OSError as error:
                self.result.unread.append(Unread(path, f"It cannot be read ({error.strerror})."))
            on_progress(done := done + size, total)
        self._store_waiting(least=1)
        return self.result

    def _found(self, kept: Sequence[Sessions], folders: Sequence[Path | None]) -> Iterator[tuple[Sessions, Path]]:
        """Yield the transcripts of clients; of a client whose database cannot be read, none."""
        for sessions in kept:
            try:
                yield from ((sessions, path) for folder in folders for path in sessions.transcripts(folder))
            except DatabaseError as error:
                self.result.unread.append(Unread(sessions.home.found() or Path(), str(error)))

    def _add(self, transcript: Transcript) -> None:
        """Have all that was said stored, and name the lines that could not be read."""
        project = str(project_of(Path(transcript.project)))
        said = [one for one in transcript.said if not self._is_copy(one, transcript.session_id)]
        memories = [self._memory(transcript.session_id, project, one) for one in said]
        found = self._store.batches.new_among(memories, forms=self._forms, again=self._again)
        self._waiting += found.new
        self.result.deleted_earlier += found.deleted
        self.result.skipped += len(transcript.said) - len(found.new) - found.deleted
        self.result.transcripts += 1
        self.result.unknown.update(transcript.unknown)
        if transcript.unread:
            self.result.unread.append(Unread(transcript.path, reason_of(transcript.unread)))
        self._store_waiting(least=BATCH)

    def _is_copy(self, said: Message, session_id: str) -> bool:
        """Return whether another session has said it, and this one has only copied its line."""
        return said.line_id is not None and self._sessions_of.setdefault(said.line_id, session_id) != session_id

    def _memory(self, session_id: str, project: str, said: Message) -> NewMemory:
        """Return the memory to store for what was said. Raises ValidationError."""
        content, title = (storable(text, redacts=self._redacts) for text in (said.content, said.title or ""))
        self._replaced[content.text] = (content.count + title.count, said.content.count("\0"))
        self._forms[hash_of(content.text)] = hashes_as_stored(said.content)
        return NewMemory.of(
            said.kind,
            content.text,
            agent_id=self._storable(said.agent_id)[:MAX_IDENTIFIER],
            session_id=self._storable(session_id),
            title=as_title(title.text),
            metadata={PROJECT: self._storable(project)},
            created_at=said.time,
            came_from=CameFrom(by=Way.IMPORT),
        )

    def _storable(self, text: str) -> str:
        return storable(text, redacts=self._redacts).text

    def _store_waiting(self, least: int) -> None:
        """Store waiting memories in batches while there are at least `least`."""
        while len(self._waiting) >= least:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            if self._again and not self._is_dry:
                self._store.batches.let_return(batch, self._forms)
            stored = batch if self._is_dry else self._store.batches.store(batch)
            result = self.result
            result.skipped += len(batch) - len(stored)
            result.stored.update(memory.kind for memory in stored)
            result.sessions.update(memory.session_id for memory in stored)
            replaced = [self._replaced.get(memory.content, (0, 0)) for memory in stored]
            result.redacted += sum(secrets for secrets, _ in replaced)
            result.nul_characters += sum(nuls for _, nuls in replaced)
            if not self._waiting:
                self._replaced.clear()
                self._forms.clear()


def is_about_project(transcript: Transcript, project: Path | None) -> bool:
    """Return whether a transcript is about a project or a folder in it, in any of its checkouts."""
    return project is None or any(map(real_path(Path(transcript.project)).is_relative_to, checkouts(project)))


def reason_of(unread: Sequence[FormatError]) -> str:
    """Return why lines of a transcript were left out, naming the first."""
    more = len(unread) - 1
    return str(unread[0]) + (f" {counted(more, 'more line')} could not be read." if more else "")


def changed_and_bytes(path: Path) -> tuple[float, int]:
    """Return when a transcript was last changed, to put several in order, and its bytes; zeros if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime, found.st_size


MAX_BYTES = 32 * 1024 * 1024
"""Longer transcripts are left to an import: reading this one takes a quarter of a second."""


def read_own(path: Path, session_id: str, project: Path) -> Transcript | None:
    """Return the transcript of a session of a project; None if the path names any other file, or a longer one.

    Only a file in the folder of a client is opened, whose name ends in the session's id. Raises FormatError, OSError.
    """
    path = path.resolve()
    if not path.name.removesuffix(COMPRESSED).endswith(f"{session_id}.jsonl"):
        return None
    for client in WITH_SESSIONS.values():
        home = client.home.found()
        if home and path.is_relative_to(home.resolve()) and path.is_file() and path.stat().st_size <= MAX_BYTES:
            transcript = client.read(path)
            is_own = (
                transcript is not None and transcript.session_id == session_id and is_about_project(transcript, project)
            )
            return transcript if is_own else None
    return None


def is_of_subagent(path: Path, session_id: str) -> bool:
    """Return whether a transcript is a sub-agent's: in Codex it has its own id, in the user's session."""
    return path.name.startswith("rollout-") and not path.name.removesuffix(COMPRESSED).endswith(f"{session_id}.jsonl")
