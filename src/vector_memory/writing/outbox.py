"""A folder of waiting texts in order, one file each. Several processes can share it."""

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from vector_memory import errors
from vector_memory.domain.user_files import read_file
from vector_memory.settings import MemoryAddress, state_folder
from vector_memory.storage.disk.drafts import Rules, Target, draft_at
from vector_memory.storage.disk.filesystem import (
    flush_to_disk,
    is_private_folder,
    lock_file,
    lock_if_free,
    make_private_folders,
    size_of,
)
from vector_memory.storage.disk.ignoring import make_own_folder

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000
MAX_BYTES = 256 * 2**20

REFUSED = "refused"
"""Folder for texts that can never be stored: nothing is thrown away. Beside each is a file with the reason."""

REASON = ".reason"
"""Ends the name of the file that says why a text was set aside."""

DELIVERING = "delivering"
"""File to lock: one process at a time delivers. It names the process, and when it began."""

DIGITS = 16
NUMBER_DIGITS = 20
NUMBERED = re.compile(rf"[0-9]{{{NUMBER_DIGITS}}}(-[0-9a-f]+)?\.json")

LEFT_OUT = "left_out"
"""Folder with an empty file for each session of which users want nothing more kept, named by the session's hash."""

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
    """A folder of texts that wait. `target`: where they belong, for people.

    While the disk of the folder takes nothing, texts wait in one of the spare places, private folders of this user,
    until the machine restarts at the latest.
    """

    def __init__(self, folder: Path, target: str = "", spare_places: Sequence[str] = ()) -> None:
        self.folder = folder
        self._target = target
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:DIGITS]
        self._spares = [Path(place, name) for place in spare_places]
        self._stuck: set[Path] = set()

    @property
    def target(self) -> str:
        """Where the texts belong, as noted with the first one."""
        return self._target or _text_of_file(self.folder / TARGET)

    def add(self, body: Body) -> Path:
        """Keep a text, behind those that wait. When this returns, it survives a power failure if the disk took it.

        Raises DatabaseError if there is no room, or no folder can be written.
        """
        data = json.dumps(body).encode()
        try:
            self._create()
            return self._kept(self.folder, data)
        except OSError as error:
            for spare in self._spares:
                with suppress(OSError):
                    make_private_folders(spare.parent)
                    if not is_private_folder(spare.parent):
                        continue
                    spare.mkdir(mode=0o700, exist_ok=True)
                    path = self._kept(spare, data)
                    logger.warning("A text waits in %s until the disk takes it (%s).", spare.parent, error.strerror)
                    return path
            raise errors.DatabaseError(
                f"This machine could not keep the text ({error.strerror}): try again later."
            ) from error

    def leave_out(self, session_id: str) -> None:
        """Note for every process that nothing more of a session is to be kept unasked. Raises OSError."""
        self._create()
        note = self._note_on(session_id)
        make_private_folders(note.parent)
        note.touch()
        _sync(note.parent)

    def leaves_out(self, session_id: str) -> bool:
        """Return whether nothing more of a session is to be kept unasked."""
        return self._note_on(session_id).exists()

    def _note_on(self, session_id: str) -> Path:
        return self.folder / LEFT_OUT / hashlib.sha256(session_id.encode()).hexdigest()

    def is_empty(self) -> bool:
        """Return whether no text waits."""
        return not self.paths()

    def paths(self) -> list[Path]:
        """Return the files of waiting texts, oldest first."""
        spares = [path for spare in self._spares if is_private_folder(spare.parent) for path in _numbered(spare)]
        waiting = sorted([*_numbered(self.folder), *spares], key=lambda path: path.name)
        return [path for path in waiting if path not in self._stuck]

    def waiting(self) -> Iterator[Waiting]:
        """Yield the waiting texts, oldest first. An unreadable file is set aside."""
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
            if path.parent != self.folder and not _numbered(path.parent):
                path.parent.rmdir()
        except OSError as error:
            logger.warning("A text that is stored could not be removed: %s", error.strerror)

    def set_aside(self, path: Path, reason: str) -> None:
        """Set aside a text that can never be stored."""
        aside = self.folder / REFUSED
        try:
            make_private_folders(aside)
            shutil.move(path, aside / path.name)
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
        self._create()
        with lock_file(self.folder / DELIVERING) as delivering:
            is_ours = lock_if_free(delivering)
            if is_ours:
                _note(self.folder / DELIVERING, str(os.getpid()))
            yield is_ours

    def _deliverer(self) -> Deliverer | None:
        """Return the delivering process, if there is one."""
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
            raise errors.DatabaseError("Too many texts wait on this machine until they can be stored: try again later.")
        # By the time, so that it is used only once, but after those that wait: clocks are also set back.
        return max(time.time_ns(), int(paths[-1].name[:NUMBER_DIGITS]) + 1 if paths else 0)

    def _kept(self, folder: Path, data: bytes) -> Path:
        """Write a text to a folder. Its name is unique, whatever other processes write at the same time."""
        path = folder / f"{self._next_number(len(data)):0{NUMBER_DIGITS}}-{secrets.token_hex(8)}.json"
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with draft_at(Target(descriptor, path.name, path, path.name), Rules()) as draft:
                with draft.open() as file:
                    file.write(data)
                draft.publish()
        finally:
            os.close(descriptor)
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
    """Write a note for people, if possible."""
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


SPARE_PLACES = [f"{place}/vector-memory-{os.getuid()}" for place in ("/dev/shm", "/tmp")] if os.name == "posix" else []  # noqa: S108 - they are private
"""For what hooks report while the disk is full or read-only: they cannot show an error."""


def outbox_of_memory(address: MemoryAddress) -> Outbox | None:
    """Return the outbox of a memory: beside its file, or in this user's folder; None if that does not exist."""
    if isinstance(address, Path):
        file = Path(os.path.realpath(address))
        return Outbox(file.with_name(file.name + ENDING), str(file), SPARE_PLACES)
    own = user_folder()
    return None if own is None else outbox_for(str(address), str(address), own, SPARE_PLACES)


def outbox_for(key: str, target: str, folder: Path, spare_places: Sequence[str] = ()) -> Outbox:
    """Return the outbox for a key in a folder of outboxes."""
    return Outbox(folder / hashlib.sha256(key.encode()).hexdigest()[:DIGITS], target, spare_places)


def user_folder() -> Path | None:
    """Return this user's folder for waiting texts; None if the user has no home."""
    state = state_folder()
    return None if state is None else state / "outbox"


def all_of_user() -> list[Outbox]:
    """Return the outboxes in this user's folder."""
    folder = user_folder()
    return [] if folder is None else [Outbox(place) for place in entries(folder) if place.is_dir()]


# Stores waiting texts in order, one process at a time, retrying each until it is confirmed or refused for good.

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS = 5.0
"""Other processes leave texts behind when they are killed."""

SECONDS_BETWEEN_ATTEMPTS = 2.0
SECONDS_UNTIL_ROOM = 30.0
"""How long a full or overloaded namespace is left alone."""

SECONDS_UNTIL_FREE = 0.02
"""A process whose text another one may be delivering checks again after this time."""

SLOW = 1.0
"""After a text has waited this long, callers no longer wait for those behind it."""

ATTEMPTS = 5
"""Number of attempts for which a text that fails for its own reason delays the others."""

ELSEWHERE = "Another process is storing them."

FINAL = frozenset({errors.ValidationError.code, errors.AccessDeniedError.code, errors.ChunkingError.code})
"""Codes of errors that a text causes every time."""

FOR_ALL = frozenset({errors.QuotaExceededError.code, errors.DatabaseLockError.code})
"""Codes of errors that every text would cause now."""


class Verdict(Enum):
    """Outcome of an attempt: stored, refused for good, failed for a reason of its own, or not possible now."""

    STORED = "stored"
    REFUSED = "refused"
    FAILED = "failed"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DeliveryOutcome(Generic[T]):
    """The outcome of an attempt to store a text, and the reason. `code`: of the error. `answer`: to the store."""

    verdict: Verdict
    reason: str = ""
    code: str = ""
    answer: T | None = None


def failure(code: str, reason: str) -> DeliveryOutcome[Any]:
    """Return the outcome of an attempt that failed with an error."""
    verdict = Verdict.REFUSED if code in FINAL else Verdict.LATER if code in FOR_ALL else Verdict.FAILED
    return DeliveryOutcome(verdict, reason, code)


class Delivery(Generic[T]):
    """Stores the texts of an outbox with `deliver`, in its own thread. Without an outbox, it takes no texts."""

    def __init__(self, outbox: Outbox | None, deliver: Callable[[Body], DeliveryOutcome[T]]) -> None:
        self._outbox = outbox
        self._deliver = deliver
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._awaited: dict[Path, Future[DeliveryOutcome[T]]] = {}
        self._failures: Counter[Path] = Counter()
        self._working_since: float | None = None
        self.problem: DeliveryOutcome[T] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether this process has texts to store."""
        return bool(self._awaited)

    @property
    def is_held_up(self) -> bool:
        """Whether a new text would wait long."""
        since = self._working_since
        return self.problem is not None or (since is not None and time.monotonic() - since > SLOW)

    @property
    def is_clear(self) -> bool:
        """Whether no text waits, apart from those that no longer delay others."""
        return self._outbox is None or all(map(self._is_passed, self._outbox.paths()))

    def start(self) -> None:
        """Start to store waiting texts, including those that other processes left behind."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
                self._thread.start()
        self._wanted.set()

    def stop(self) -> None:
        """Stop, and leave waiting texts to other processes. Does not wait for the thread."""
        self._stopping.set()
        self._wanted.set()

    def take(self, body: Body) -> Future[DeliveryOutcome[T]]:
        """Write a text to the disk, and have it stored; return the outcome of the first attempt.

        Raises DatabaseError if the disk does not take it: the text is lost unless the caller sends it again.
        """
        if self._outbox is None:
            raise errors.DatabaseError("This machine has no folder to keep the text in: set XDG_STATE_HOME.")
        outcome: Future[DeliveryOutcome[T]] = Future()
        with self._lock:  # the thread must not finish it before it is known that somebody waits for it
            self._awaited[self._outbox.add(body)] = outcome
        self.start()
        return outcome

    def deliver_waiting(self) -> float:
        """Try to store all waiting texts; return after how many seconds to retry."""
        self._working_since = self._working_since or time.monotonic()
        self.problem = self._empty(self._outbox) if self._outbox is not None else None
        self._release_gone()
        if self.problem is not None:
            return (
                SECONDS_UNTIL_ROOM if self.problem.code == errors.QuotaExceededError.code else SECONDS_BETWEEN_ATTEMPTS
            )
        if self.is_busy:  # another process delivers
            return SECONDS_UNTIL_FREE
        self._working_since = None
        return SECONDS_BETWEEN_LOOKS

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            self._wanted.wait(pause)
            self._wanted.clear()
            try:
                pause = self.deliver_waiting()
            except Exception as error:  # whatever the reason, the next attempt may succeed
                logger.warning("What waits on this machine could not be stored: %s", errors.where(error))
                pause = SECONDS_BETWEEN_ATTEMPTS

    def _empty(self, outbox: Outbox) -> DeliveryOutcome[T] | None:
        """Store the texts of an outbox; return why some have to wait longer."""
        if not outbox.paths():
            return None
        passed = ""
        try:
            with outbox.claimed() as is_ours:
                if not is_ours:
                    return self._released(DeliveryOutcome(Verdict.LATER, ELSEWHERE)) if self.is_held_up else None
                for waiting in outbox.waiting():
                    outcome = self._stored(outbox, waiting)
                    if self._stopping.is_set():
                        return None
                    if self._holds_others_up(waiting.path, outcome):
                        outbox.note_problem(outcome.reason)
                        return self._put_off(outcome)
                    if outcome.verdict is Verdict.FAILED:
                        passed = outcome.reason
                outbox.note_problem(passed)
        except OSError as error:
            return self._put_off(DeliveryOutcome(Verdict.LATER, f"Their folder cannot be used ({error.strerror})."))
        return None

    def _stored(self, outbox: Outbox, waiting: Waiting) -> DeliveryOutcome[T]:
        outcome = self._attempt(waiting.body)
        if outcome.verdict is Verdict.STORED:
            outbox.forget(waiting.path)
        elif outcome.verdict is Verdict.REFUSED:
            outbox.set_aside(waiting.path, outcome.reason)
        self._release(waiting.path, outcome)
        return outcome

    def _holds_others_up(self, path: Path, outcome: DeliveryOutcome[T]) -> bool:
        """Return whether a text delays the others; after some attempts, one that fails for its own reason does not."""
        if outcome.verdict is Verdict.LATER:
            self._failures.clear()
            return True
        if outcome.verdict is Verdict.FAILED:
            self._failures[path] += 1
            return not self._is_passed(path)
        del self._failures[path]
        return False

    def _is_passed(self, path: Path) -> bool:
        return self._failures[path] >= ATTEMPTS

    def _attempt(self, body: Body) -> DeliveryOutcome[T]:
        try:
            return self._deliver(body)
        except Exception as error:
            return DeliveryOutcome(Verdict.FAILED, errors.where(error))

    def _put_off(self, outcome: DeliveryOutcome[T]) -> DeliveryOutcome[T]:
        """Record why texts wait, and release the callers that wait for them."""
        if self.problem is None or self.problem.reason != outcome.reason:
            logger.warning("Texts wait on this machine until they can be stored: %s", outcome.reason)
        self.problem = outcome
        return self._released(outcome)

    def _released(self, outcome: DeliveryOutcome[T]) -> DeliveryOutcome[T]:
        """Release the callers that wait for a text."""
        for path in list(self._awaited):
            self._release(path, outcome)
        return outcome

    def _release_gone(self) -> None:
        """Release the callers that wait for texts that another process has stored."""
        for path in list(self._awaited):
            if not path.exists():
                self._release(path, DeliveryOutcome(Verdict.STORED))

    def _release(self, path: Path, outcome: DeliveryOutcome[T]) -> None:
        with self._lock:
            future = self._awaited.pop(path, None)
        if future is not None and not future.done():
            future.set_result(outcome)
