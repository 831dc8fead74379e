"""A folder of waiting texts in order, one file each. Several processes can share it."""

import hashlib
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.domain.user_files import read_file
from vector_memory.errors import DatabaseError
from vector_memory.settings import MemoryAddress, state_folder
from vector_memory.storage.disk.drafts import Rules, draft_at
from vector_memory.storage.disk.filesystem import flush_to_disk, make_private_folders, size_of
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.storage.disk.locking import lock_file, lock_if_free
from vector_memory.storage.disk.protection import Target

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000
MAX_BYTES = 256 * 2**20

REFUSED = "refused"
"""Folder for texts that can never be stored: nothing is thrown away. Beside each is a file with the reason."""

REASON = ".reason"
"""Ends the name of the file that says why a text was set aside."""

DELIVERING = "delivering"
"""File to lock: one process at a time delivers. It says which one, and its time when that began."""

NUMBER_DIGITS = 20
NUMBERED = re.compile(rf"[0-9]{{{NUMBER_DIGITS}}}(-[0-9a-f]+)?\.json")

TARGET, PROBLEM = "target", "problem"
"""Files that say where the texts belong, and why they wait."""

Body = dict[str, Any]
"""A waiting text, as JSON."""


class Waiting(NamedTuple):
    """A waiting text and its file."""

    path: Path
    body: Body


class Refused(NamedTuple):
    """The file of a text that was set aside, and why."""

    path: Path
    reason: str


class Deliverer(NamedTuple):
    """The process that delivers, and when it began, in seconds since 1970."""

    pid: str
    since: float


class Contents(NamedTuple):
    """What is in an outbox. `since`: when the oldest text that waits was added, in seconds since 1970.

    `problem`: why it waits, as far as that is known.
    """

    waiting: int
    since: float | None
    problem: str
    deliverer: Deliverer | None
    refused: list[Refused]


class Outbox:
    """A folder of texts that wait. `target`: where they belong, for people."""

    def __init__(self, folder: Path, target: str = "") -> None:
        self.folder = folder
        self._target = target
        self._stuck: set[Path] = set()

    @property
    def target(self) -> str:
        """Where the texts belong, as whoever added the first one has noted it."""
        return self._target or _text_of_file(self.folder / TARGET)

    def add(self, body: Body) -> Path:
        """Keep a text, behind those that wait. When this returns, it survives a power failure.

        Raises DatabaseError if there is no room, or the folder cannot be written.
        """
        data = json.dumps(body).encode()
        try:
            self._create()
            return self._written(self._next_number(len(data)), data)
        except OSError as error:
            raise DatabaseError(f"This machine could not keep the text ({error.strerror}): try again later.") from error

    def is_empty(self) -> bool:
        """Return whether no text waits."""
        return not self.paths()

    def paths(self) -> list[Path]:
        """Return the files of waiting texts, oldest first."""
        return [path for path in _numbered(self.folder) if path not in self._stuck]

    def waiting(self) -> Iterator[Waiting]:
        """Yield what waits, the oldest first. A file that cannot be read is set aside."""
        for path in self.paths():
            try:
                body = json.loads(read_file(path, links=False))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.set_aside(path, f"It cannot be read ({error.strerror}).")
            except (ValueError, RecursionError):
                self.set_aside(path, "It is damaged.")
            else:
                if isinstance(body, dict):
                    yield Waiting(path, body)
                else:
                    self.set_aside(path, "It is damaged.")

    def forget(self, path: Path) -> None:
        """Remove a text that is stored. If that fails, it is stored again later, which changes nothing."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("A text that is stored could not be removed: %s", error.strerror)

    def set_aside(self, path: Path, reason: str) -> None:
        """Set aside a text that can never be stored."""
        aside = self.folder / REFUSED
        try:
            make_private_folders(aside)
            path.rename(aside / path.name)
        except OSError as error:
            logger.warning("A text that waits could not be set aside: %s", error.strerror)
            self._stuck.add(path)
            return
        logger.error("A text was set aside: %s", reason)
        _note(aside / f"{path.stem}{REASON}", reason)

    def put_back(self) -> int:
        """Retry the texts that were set aside; return their number. Raises OSError."""
        refused = self.refused()
        for path, _ in refused:
            path.rename(self.folder / path.name)
            path.with_suffix(REASON).unlink(missing_ok=True)
        return len(refused)

    def refused(self) -> list[Refused]:
        """Return the texts that were set aside."""
        paths = _numbered(self.folder / REFUSED)
        return [Refused(path, _text_of_file(path.with_suffix(REASON))) for path in paths]

    def contents(self) -> Contents:
        """Return the contents of the outbox. Changes nothing."""
        paths, since = self.paths(), None
        with suppress(OSError, IndexError):
            since = paths[0].stat().st_mtime
        problem = _text_of_file(self.folder / PROBLEM) if paths else ""
        return Contents(len(paths), since, problem, self._deliverer(), self.refused())

    def note_problem(self, reason: str) -> None:
        """Record for other processes why the texts wait; empty: they no longer wait."""
        if reason:
            _note(self.folder / PROBLEM, reason)
        else:
            with suppress(OSError):
                (self.folder / PROBLEM).unlink(missing_ok=True)

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Yield whether this process may deliver: no other does so during the block. Raises OSError."""
        with lock_file(self.folder / DELIVERING) as delivering:
            is_ours = lock_if_free(delivering)
            if is_ours:
                _note(self.folder / DELIVERING, str(os.getpid()))
            yield is_ours

    def _deliverer(self) -> Deliverer | None:
        """Return the process that delivers; None if none does."""
        path = self.folder / DELIVERING
        try:
            with path.open("rb") as delivering:
                is_free = lock_if_free(delivering.fileno())
            return None if is_free else Deliverer(_text_of_file(path), path.stat().st_mtime)
        except OSError:
            return None

    def _create(self) -> None:
        """Create the folder, which keeps itself out of Git."""
        if self.folder.is_dir():
            return
        missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        make_own_folder(self.folder)
        for folder in missing:
            _sync(folder.parent)
        _note(self.folder / TARGET, self._target)

    def _next_number(self, size: int) -> int:
        """Return the number for a text of `size` bytes. Raises DatabaseError if there is no room for it."""
        paths = self.paths()
        if len(paths) >= MAX_WAITING or sum(map(size_of, paths)) + size > MAX_BYTES:
            raise DatabaseError("Too many texts wait on this machine until they can be stored: try again later.")
        # By the time, so that it is used only once, but after those that wait: clocks are also set back.
        return max(time.time_ns(), int(paths[-1].name[:NUMBER_DIGITS]) + 1 if paths else 0)

    def _written(self, number: int, data: bytes) -> Path:
        """Write a text under a number. Whatever other processes write at the same time, its name is its own."""
        path = self.folder / f"{number:0{NUMBER_DIGITS}}-{secrets.token_hex(8)}.json"
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with draft_at(Target(folder, path.name, path, path.name), Rules()) as draft:
                with draft.open() as file:
                    file.write(data)
                draft.publish()
        finally:
            os.close(folder)
        return path


def entries(folder: Path) -> list[Path]:
    """List a folder, sorted; nothing if it does not exist or belongs to another user. Raises OSError."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _numbered(folder: Path) -> list[Path]:
    return [path for path in entries(folder) if NUMBERED.fullmatch(path.name)]


def _text_of_file(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return read_file(path).decode(errors="replace").strip()
    except OSError:
        return ""


def _note(path: Path, text: str) -> None:
    """Write a text for people, as far as that is possible."""
    with suppress(OSError):
        path.write_text(f"{text}\n", encoding="utf-8")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flush_to_disk(descriptor)
    finally:
        os.close(descriptor)


ENDING = ".outbox"
"""Ends the name of the folder beside the file of a memory."""

DIGITS = 16


def outbox_of_memory(address: MemoryAddress) -> Outbox | None:
    """Return where texts wait for a memory: beside its file, or in this user's folder; None if that does not exist."""
    if isinstance(address, Path):
        file = Path(os.path.realpath(address))
        return Outbox(file.with_name(file.name + ENDING), str(file))
    own = user_folder()
    return None if own is None else outbox_for(str(address), str(address), own)


def outbox_for(key: str, target: str, folder: Path) -> Outbox:
    """Return the outbox in a folder of many for what a key names."""
    return Outbox(folder / hashlib.sha256(key.encode()).hexdigest()[:DIGITS], target)


def user_folder() -> Path | None:
    """Return the folder of this user for what waits; None if the user has no home."""
    state = state_folder()
    return None if state is None else state / "outbox"


def all_of_user() -> list[Outbox]:
    """Return the outboxes in this user's folder that there are."""
    folder = user_folder()
    return [] if folder is None else [Outbox(place) for place in entries(folder) if place.is_dir()]
