"""Finds the files that `ingest` stores, and stores each as a memory, or in sync with the memories stored earlier."""

import errno
import glob
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from vector_memory.cli.terminal import progress
from vector_memory.domain import CameFrom, MemoryFields, MemoryKind, NewMemory, Scope, Way
from vector_memory.domain.text import text_in, without_halves
from vector_memory.domain.user_files import read_file, read_up_to
from vector_memory.domain.validation import MAX_CONTENT, MAX_CONTENT_BYTES, MAX_TAG, MAX_TAGS, as_title
from vector_memory.errors import ConfigurationError, ValidationError
from vector_memory.files.folder import walk
from vector_memory.files.syncing import FileSync, Outcome, State, UnreadableFileError, outcome_of, status_of
from vector_memory.files.watcher import follow
from vector_memory.settings.locations import main_checkout
from vector_memory.storage.disk.drafts import is_open
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.structure import read_front_matter, title_of
from vector_memory.writing.sync import Origin, Sync
from vector_memory.writing.writer import forms_of, hash_of

SUFFIXES = {".md", ".markdown", ".txt"}
STANDARD_INPUT = "-"
NOWHERE = Origin("", "")
"""The origin of standard input, which cannot be recognized again."""
PATTERN = re.compile(r"[*?\[]")


def matched_files(words: Sequence[str], skip: Callable[[str, str], None]) -> dict[str, Origin]:
    """Return the paths that files, folders and patterns match, each once, with their origins.

    `skip` is called for what is left out of a folder, with the reason. Raises ConfigurationError if a word matches
    nothing.
    """
    found: dict[str, Origin] = {}
    for word in words:
        files = list(_files(word, skip))
        if not files:
            raise ConfigurationError(f"{word} matches no Markdown or text file: check the path.")
        for file in files:
            found.setdefault(file, NOWHERE if word == STANDARD_INPUT else origin_in(folder_of(word), absolute(file)))
    return found


def _files(word: str, skip: Callable[[str, str], None]) -> Iterator[str]:
    path = Path(os.path.expanduser(word))  # noqa: PTH111 - Path's raises if there is no such user
    if word == STANDARD_INPUT or (path.exists() and not path.is_dir()):
        yield word if word == STANDARD_INPUT else str(path)
    elif path.is_dir():
        yield from _files_below(path, skip)
    else:
        yield from sorted(name for name in glob.glob(str(path), recursive=True) if not Path(name).is_dir())  # noqa: PTH207 - a pattern may be absolute


def _files_below(folder: Path, skip: Callable[[str, str], None]) -> Iterator[str]:
    """Yield the files of a folder, sorted, without hidden files, installed packages and what Git ignores."""
    root = Path(os.path.realpath(folder))
    try:
        found = sorted(entry.path for entry in walk(root, lambda path, why: skip(str(folder / path), why), strict=True))
    except OSError as error:
        # Not skipped: --sync would treat its files as deleted.
        raise ConfigurationError(f"A folder in {folder} cannot be read ({error.strerror}).") from None
    for path in found:
        if path.suffix.lower() in SUFFIXES:
            file = folder / path
            if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - Path.is_file may raise
                skip(str(file), "it is not a file, but a pipe, a socket or a device")
            else:
                yield str(file)


def absolute(word: str | Path) -> Path:
    """Return a path without `..`, so that it names the same file from everywhere."""
    return Path(os.path.abspath(os.path.expanduser(word)))  # noqa: PTH100, PTH111 - Path's keeps `..`, and raises


def folder_of(word: str) -> Path:
    """Return the folder that a word names, or that the files that it names are in."""
    path = absolute(word)
    if path.is_dir():
        return path
    fixed = Path(*takewhile(lambda part: not PATTERN.search(part), path.parts))
    return fixed if fixed != path else path.parent


def origin_in(folder: Path, path: Path) -> Origin:
    """Return where a file is: below the repository that a folder is in; without one, below what contains the folder.

    Links to the folder, and checkouts of one repository, lead to the same origin.
    """
    real = Path(os.path.realpath(folder))
    root = next((place for place in (real, *real.parents) if (place / ".git").exists()), real.parent)
    source = (real / path.relative_to(folder)).relative_to(root)
    return Origin(str(main_checkout(root)), source.as_posix())


def below(words: Sequence[str], origins: Iterable[Origin]) -> list[Origin]:
    """Return the origins that are in one of the given folders, whether or not the files exist."""
    folders = [folder for folder in map(absolute, words) if folder.is_dir()]
    given = [origin_in(folder, folder) for folder in folders]
    return [origin for origin in origins if any(_contains(folder, origin) for folder in given)]


def _contains(folder: Origin, origin: Origin) -> bool:
    return folder.root == origin.root and (folder.source == "." or origin.source.startswith(f"{folder.source}/"))


def session_of(words: Sequence[str]) -> str | None:
    """Return the name of the folder that all the files are in; None if they are in none with a name in UTF-8."""
    folders = [folder_of(word) for word in words if word != STANDARD_INPUT]
    name = Path(os.path.commonpath(folders)).name if folders else ""
    return name if name and name == without_halves(name) else None


def text_in_file(file: str) -> str:
    """Return the text of a file. Raises ValidationError if it is not text, and UnreadableFileError."""
    try:
        str(absolute(file)).encode()  # it becomes the memory's origin
        return text_in(bytes_of(file))
    except UnicodeEncodeError:
        raise ValidationError("Its path is not UTF-8: rename it.") from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ValidationError(f"content is longer than {MAX_CONTENT:,} characters: split the file.") from None
        raise UnreadableFileError(f"It cannot be read ({error.strerror}).") from None


def bytes_of(file: str) -> bytes:
    """Return the bytes of a file. The memory itself must not be opened: closing it would drop SQLite's locks."""
    if file == STANDARD_INPUT:
        return read_up_to(sys.stdin.buffer, MAX_CONTENT_BYTES)
    if is_open(Path(file)):
        raise UnreadableFileError("It is the memory itself, or a file that this command uses: choose another file.")
    return read_file(file, MAX_CONTENT_BYTES)


def facts_in(file: str, text: str) -> MemoryFields:
    """Return the title, tags and time of a document: those that its front matter says.

    Without one the title is the first heading, except of a text file, where `# ` begins a comment, or the file name.
    """
    front = read_front_matter(text)
    is_plain = Path(file).suffix.lower() == ".txt"
    title = front.title if is_plain else title_of(text)
    name = "" if file == STANDARD_INPUT else Path(file).stem
    tags = [tag for tag in front.tags if len(tag) <= MAX_TAG]
    return MemoryFields(title=as_title(title or name), tags=tags[:MAX_TAGS], created_at=front.date)


class LeftOut(NamedTuple):
    """What is skipped in a folder, and why."""

    file: str
    reason: str


Files = dict[str, Origin]
"""The files to store, with their origins."""


class Ingestion:
    """Stores files as memories of one kind that differ only in what comes from the file.

    `keep_replaced`: earlier texts of edited files are superseded, not deleted.
    """

    def __init__(
        self, store: SessionMemoryStore, kind: MemoryKind, fields: MemoryFields, *, keep_replaced: bool = False
    ) -> None:
        self._store = store
        self._keep_replaced = keep_replaced
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
        """Store new files; return the outcomes, and the number whose earlier text is still stored.

        What was deleted stays gone, unless the file itself is named.
        """
        sync, named = self._sync(), {str(Path(os.path.expanduser(word))) for word in words}  # noqa: PTH111
        outdated = 0

        def add(file: str, origin: Origin) -> tuple[State, int | None]:
            nonlocal outdated
            memory = self._memory_of(file, origin)
            text, forms = memory.content, {hash_of(memory.content): forms_of(memory.content)}
            if file not in named and self._store.batches.new_among([memory], forms=forms).deleted:
                return "deleted_earlier", None
            stored = self._store.store_memory(self._kind, text, **self._fields_of(file, text, origin))
            outdated += sync.is_outdated(origin, text)
            return "stored", stored.memory_id

        files = self._files_of(words)
        with progress("Storing") as update:
            outcomes = []
            for file, origin in files.items():
                outcomes.append(outcome_of(file, partial(add, file, origin)))
                update(len(outcomes), len(files))
        return outcomes, outdated

    def synced(self, words: Sequence[str]) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of deleted files.

        A file counts as deleted only if its folder was given.
        """
        sync, files = self._sync(), self._files_of(words)
        gone = sorted(set(below(words, sync.origins())) - set(files.values()))
        with progress("Storing") as update:
            return self._file_sync.run(sync, files, gone, update)

    def _files_of(self, words: Sequence[str]) -> Files:
        self.left_out = []
        return matched_files(words, lambda path, reason: self.left_out.append(LeftOut(path, reason)))

    def _sync(self) -> Sync:
        return self._store.sync(self._scope, keep_replaced=self._keep_replaced)

    def _memory_of(self, file: str, origin: Origin) -> NewMemory:
        text = text_in_file(file)
        return NewMemory.of(self._kind, text, **self._fields_of(file, text, origin))

    def _fields_of(self, file: str, text: str, origin: Origin) -> MemoryFields:
        fields = self._fields | facts_in(file, text)
        fields["tags"] = [*(self._fields.get("tags") or ()), *(fields.get("tags") or ())][:MAX_TAGS]
        fields["metadata"] = None if origin == NOWHERE else origin._asdict()
        fields["came_from"] = CameFrom(by=Way.INGEST)
        return fields


def changes_in(words: Sequence[str]) -> Iterator[None]:
    """Yield after each change in the folders that are given, or that contain the files.

    Also once when watching begins: something may have changed just before.
    """

    def matters(_change: object, path: str) -> bool:
        """Whether it may be a change of a file. A deleted path may have been a folder."""
        return Path(path).suffix.lower() in SUFFIXES or not Path(path).is_file()

    for is_watched in follow({folder_of(word) for word in words}, matters, threading.Event()):
        if is_watched:  # a removed file may reappear in a moment
            yield
