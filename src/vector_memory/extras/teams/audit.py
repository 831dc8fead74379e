"""A record of who did what: one line for each call, chained with HMAC, so that a removed or changed line shows.

Lines hold names and ids, never content. A signature covers the line and the one before it, also across files. Only
removing the newest lines and files leaves a valid chain: note the newest signature elsewhere to detect that as well.
"""

import errno
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.domain import utc_now
from vector_memory.domain.callers import Caller
from vector_memory.domain.user_files import MAX_BYTES, opened, read_up_to
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError, VectorMemoryError
from vector_memory.settings import state_folder
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import lock, lock_file, make_private_folders, size_of
from vector_memory.texts.redaction import redact_within

FOLDER = "audit"
ROTATE_BYTES = 64 * 2**20
BLOCK_BYTES = 4_096
DIGITS = 8
IDS_LISTED = 100
KEY_BYTES = 32

FIELDS = {"at", "token", "namespace", "call", "ids", "error", "signature"}

DAMAGED = "this line is damaged"
BROKEN = (
    "it does not follow from the line before with this key: one of them was changed or removed, or --audit-key names "
    "another key than the server's"
)


@dataclass(frozen=True, slots=True)
class Broken:
    """Where the chain does not hold: `file`, and the number of the `line`, from 1."""

    file: Path
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of all files found.

    `lines`: how many hold. `missing`: calls that could not be recorded, according to the lines. `newest`: the
    signature of the last line. `unfinished`: an incomplete line follows it, whether from a full disk, the end of a
    process or tampering. `broken`: the first place where lines were changed, removed or added.
    """

    lines: int
    missing: int
    newest: str | None
    unfinished: bool
    broken: Broken | None


class AuditLog:
    """The audit files of a data folder. Safe to use from several threads and processes.

    The key is in a separate file: write access to the log alone does not allow signing a line. It is `key_file`, or one
    in the user's state folder. Raises ConfigurationError for a key file in the data folder.
    """

    def __init__(self, data_dir: Path, key_file: Path | None = None, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._folder = data_dir / FOLDER
        self.key_file = key_file or own_key_file(data_dir)
        if Path(os.path.realpath(self.key_file)).is_relative_to(os.path.realpath(data_dir)):
            raise ConfigurationError(
                "The key of the audit log must not be in the data folder: name a file elsewhere with --audit-key."
            )
        self._rotate_bytes = rotate_bytes
        self._missed, self._counting = 0, threading.Lock()

    def prepare(self) -> None:
        """Create the key, unless there is one. Raises ConfigurationError if the key or the log cannot be used."""
        try:
            make_private_folders(self.key_file.parent)
            with draft_of(self.key_file, Rules()) as draft:
                with draft.open() as stream:
                    stream.write(f"{secrets.token_hex(KEY_BYTES)}\n".encode())
                draft.publish()
        except ValidationError:  # there is one, or something else has this name
            self._key()
        except (OSError, DatabaseError) as error:
            raise ConfigurationError(
                f"The key of the audit log cannot be kept in {self.key_file}: name another file with --audit-key."
            ) from error

    def record(
        self, caller: Caller, call: str, *, ids: Mapping[str, Sequence[int | str]], error: str | None = None
    ) -> None:
        """Append a line: who called what, on which ids, and how it ended.

        Raises DatabaseError if it cannot; the next line says how many calls are missing before it.
        """
        listed, _ = redact_within({name: list(values)[:IDS_LISTED] for name, values in ids.items() if values})
        try:
            self._append(
                {"at": utc_now(), "token": caller.name, "namespace": caller.namespace}
                | {"call": call, "ids": listed, "error": error}
            )
        except (OSError, VectorMemoryError) as failure:
            self._count(1)
            reason = getattr(failure, "strerror", None) or "its key cannot be used, or another process keeps it locked"
            raise DatabaseError(f"A call is missing in the audit log, which cannot be written: {reason}.") from failure

    def files(self) -> list[Path]:
        """Return the files, the oldest first."""
        return sorted(self._folder.glob(f"{'[0-9]' * DIGITS}.jsonl"))

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, the oldest first. Lines that are damaged are left out: `verify` names them."""
        for _, _, data in self._numbered():
            if (line := _line_in(data)) is not None:
                yield line

    def verify(self) -> Checked:
        """Check every line. Raises ConfigurationError for a key file that cannot be used."""
        key, before, newest = self._key() if self.files() else b"", b"", None
        lines = missing = 0
        unfinished = broken = None
        for path, number, data in self._numbered():
            line, is_whole = _line_in(data), data.endswith(b"\n")
            if unfinished or (line is None and is_whole):
                broken = unfinished or Broken(path, number, DAMAGED)
            elif line is None or not is_whole:
                unfinished = Broken(path, number, DAMAGED)
            elif data != _signed({name: line[name] for name in line if name != "signature"}, before, key):
                broken = Broken(path, number, BROKEN)
            else:
                before, newest = data, line["signature"]
                lines, missing = lines + 1, missing + line.get("missing", 0)
            if broken:
                break
        return Checked(lines, missing, newest, bool(unfinished and not broken), broken)

    def _numbered(self) -> Iterator[tuple[Path, int, bytes]]:
        for path in self.files():
            with path.open("rb") as stream:
                for number, data in enumerate(stream, 1):
                    yield path, number, data

    def _append(self, line: dict[str, Any]) -> None:
        make_private_folders(self._folder)
        with lock_file(self._folder / "lock") as descriptor:
            lock(descriptor)
            files, key = self.files(), self._key()
            if files and _cut_unfinished(files[-1]):
                self._count(1)
            missed = self._missed
            number = int(files[-1].stem) if files else 1  # not a time: a clock may be set back
            number += bool(files) and size_of(files[-1]) >= self._rotate_bytes
            path = self._folder / f"{number:0{DIGITS}}.jsonl"
            _append_whole(path, _signed(line | ({"missing": missed} if missed else {}), self._last_line(), key))
            self._count(-missed)

    def _last_line(self) -> bytes:
        return next(filter(None, map(_last_line, reversed(self.files()))), b"")

    def _count(self, missed: int) -> None:
        with self._counting:
            self._missed += missed

    def _key(self) -> bytes:
        """Return the key, as it is in its file now. Raises ConfigurationError if it cannot be used."""
        path = self.key_file
        try:
            with opened(path) as stream:
                if os.fstat(stream.fileno()).st_mode & 0o077:
                    raise ConfigurationError(f"Others can use the key in {path}: run `chmod 600 {path}`.")
                key = bytes.fromhex(read_up_to(stream, MAX_BYTES).decode())
        except OSError as error:
            raise ConfigurationError(
                f"The key file {path} cannot be read: {error.strerror}. Restore it, or name another with --audit-key."
            ) from error
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigurationError(f"{path} holds no key of an audit log: restore it, or name another file.")
        return key


def own_key_file(data_dir: Path) -> Path:
    """Return the file for the key of a data folder's log, unless another is named. Raises ConfigurationError."""
    state = state_folder()
    if state is None:
        raise ConfigurationError("No home directory to keep the audit log's key in: name a file with --audit-key.")
    return state / "audit" / f"{hashlib.sha256(os.fsencode(os.path.realpath(data_dir))).hexdigest()[:16]}.key"


def _signed(line: Mapping[str, Any], before: bytes, key: bytes) -> bytes:
    """Return a line as it is in a file, with its signature, which only the owner of the key can compute."""
    signature = hmac.new(key, before + _encoded(line), hashlib.sha256).hexdigest()
    return _encoded({**line, "signature": signature})


def _encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line as JSON. A surrogate that a client has sent alone becomes an escape."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _append_whole(path: Path, data: bytes) -> None:
    """Append a line, or nothing of it. Raises OSError."""
    target = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        size, written = os.fstat(target).st_size, os.write(target, data)
        if written < len(data):  # a write that would store nothing raises itself
            os.ftruncate(target, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(target)


def _cut_unfinished(path: Path) -> bool:
    """Remove the beginning of a line that a process was writing when it ended; return whether there was one."""
    last = _last_line(path)
    if last.endswith(b"\n") or not last:
        return False
    os.truncate(path, size_of(path) - len(last))
    return True


def _last_line(path: Path) -> bytes:
    """Return the last line of a file, whole or not; nothing if it is empty."""
    with path.open("rb") as stream:
        size, tail = stream.seek(0, os.SEEK_END), b""
        while len(tail) < size and b"\n" not in tail[:-1]:
            stream.seek(max(0, size - max(2 * len(tail), BLOCK_BYTES)))
            tail = stream.read()
        return tail[tail.rfind(b"\n", 0, -1) + 1 :]


def _line_in(data: bytes) -> dict[str, Any] | None:
    """Return a line that has the form of ours; None if it has not."""
    try:
        line = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not line.keys() >= FIELDS or not isinstance(line.get("missing", 0), int):
        return None
    texts, ids = all(isinstance(line[name], str) for name in ("at", "call", "signature")), line["ids"]
    return line if texts and isinstance(ids, dict) and all(isinstance(each, list) for each in ids.values()) else None
