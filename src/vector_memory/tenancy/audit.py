"""A record of who did what: one signed line for each call, chained, so that a removed or changed line shows.

Lines hold names and ids, never content. Each file begins where the one before ended, so that whole files cannot be
removed unseen either, except the newest lines and files: note the newest signature elsewhere to detect that as well.
"""

import errno
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.domain import utc_now
from vector_memory.domain.user_files import MAX_BYTES, opened, read_up_to
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError, VectorMemoryError
from vector_memory.redaction import redact_within
from vector_memory.settings import state_folder
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import make_private_folders, size_of
from vector_memory.storage.disk.locking import lock, lock_file
from vector_memory.tenancy.tokens import Caller

# The keys that sign an audit log, in a file apart from it: who can only write to the log cannot sign a line.
#
# The file has one key a line. The last one signs; those before it check the lines that they have signed.

KEY_BYTES = 32
NAME_DIGITS = 16


class AuditKey(NamedTuple):
    """A key and its name, which tells nothing about it."""

    name: str
    secret: bytes


class AuditKeys:
    """The keys in a file. It is read for each use, so that a running server signs with a key that was just added."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Create the first key, unless there is one. Raises ConfigurationError if the file cannot be used."""
        if not self.all():
            try:
                make_private_folders(self.path.parent)
                self._write([secrets.token_bytes(KEY_BYTES)], Rules())
            except ValidationError:  # another worker was faster, or something else has this name
                self.newest()
            except (OSError, DatabaseError) as error:
                raise ConfigurationError(
                    f"The key of the audit log cannot be kept in {self.path}: name another file with --audit-key."
                ) from error

    def add(self) -> AuditKey:
        """Add a key, which signs from now on. Raises DatabaseError if the file cannot be written."""
        key = secrets.token_bytes(KEY_BYTES)
        self._write([*(known.secret for known in self.all()), key], Rules(overwrite=True))
        return self.newest()

    def all(self) -> list[AuditKey]:
        """Return the keys, the oldest first; none if there is no file. Raises ConfigurationError."""
        try:
            with opened(self.path) as stream:
                if os.fstat(stream.fileno()).st_mode & 0o077:
                    raise ConfigurationError(f"Others can use the key in {self.path}: run `chmod 600 {self.path}`.")
                keys = [bytes.fromhex(line.decode()) for line in read_up_to(stream, MAX_BYTES).splitlines()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigurationError(f"The key file {self.path} cannot be read: {error.strerror}.") from error
        except ValueError:
            keys = []
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ConfigurationError(f"{self.path} holds no keys of an audit log: restore it, or name another file.")
        return [AuditKey(hashlib.sha256(b"name" + key).hexdigest()[:NAME_DIGITS], key) for key in keys]

    def newest(self) -> AuditKey:
        """Return the key that signs. Raises ConfigurationError if there is none."""
        keys = self.all()
        if not keys:
            raise ConfigurationError(f"The key file {self.path} is missing: restore it.")
        return keys[-1]

    def _write(self, keys: list[bytes], rules: Rules) -> None:
        with draft_of(self.path, rules) as draft:
            with draft.open() as stream:
                stream.write("".join(f"{key.hex()}\n" for key in keys).encode())
            draft.publish()


def keys_of(data_dir: Path, given: Path | None = None) -> AuditKeys:
    """Return the keys of the audit log in a data folder: in the given file, or in the folder for what programs keep.

    Raises ConfigurationError for a file in the data folder, where whoever can write to the log would find it.
    """
    real = Path(os.path.realpath(data_dir))
    path = given or _own_file(real)
    if Path(os.path.realpath(path)).is_relative_to(real):
        raise ConfigurationError(
            "The key of the audit log must not be in the data folder: name a file elsewhere with --audit-key."
        )
    return AuditKeys(path)


def _own_file(data_dir: Path) -> Path:
    state = state_folder()
    if state is None:
        raise ConfigurationError("There is no home folder for the key of the audit log: name a file with --audit-key.")
    return state / "audit" / f"{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:NAME_DIGITS]}.key"


FOLDER = "audit"
BEGINNING = "0" * 64
"""The hash that the first line is chained to."""

ROTATE_BYTES = 64 * 2**20
BLOCK_BYTES = 4_096
DIGITS = 8
IDS_LISTED = 100
NEW_KEY = "audit/new-key"
"""The call in the line that says that a key was added."""

TEXTS = ("at", "call", "previous", "key", "signature")
OTHERS = ("token", "namespace", "ids", "error")


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
    signature of the last line. `unfinished`: another line was begun after it, which a full disk, the end of a process
    or somebody who cut it off leaves alike. `broken`: the first place where lines were changed, removed or added.
    """

    lines: int
    missing: int
    newest: str | None
    unfinished: bool
    broken: Broken | None


class AuditLog:
    """The audit files of a data folder. Safe to use from several threads and processes."""

    def __init__(self, data_dir: Path, keys: AuditKeys, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._folder = data_dir / FOLDER
        self._keys = keys
        self._rotate_bytes = rotate_bytes
        self._missed, self._counting = 0, threading.Lock()

    def record(
        self, caller: Caller, call: str, *, ids: Mapping[str, Sequence[int | str]], error: str | None = None
    ) -> None:
        """Append a line: who called what, on which ids, and how it ended.

        Raises DatabaseError if it cannot; the next line says how many calls are missing before it.
        """
        listed, _ = redact_within({name: list(values)[:IDS_LISTED] for name, values in ids.items() if values})
        try:
            with self._locked():
                self._append(_facts(caller.name, caller.namespace, call, listed, error))
        except (OSError, VectorMemoryError) as failure:
            self._count(1)
            reason = "its key cannot be used, or another process keeps it locked"
            if isinstance(failure, OSError):
                reason = failure.strerror or type(failure).__name__
            raise DatabaseError(f"A call is missing in the audit log, which cannot be written: {reason}.") from failure

    def renew_key(self) -> str:
        """Sign with a new key from now on, and return its name. Raises OSError and VectorMemoryError."""
        with self._locked():
            key = self._keys.add()
            self._append(_facts(None, None, NEW_KEY, {"key": [key.name]}, None))
        return key.name

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
        chain, unfinished, broken = _Chain(self._keys.all()), False, None
        place = (self._folder, 0)
        for path, number, data in self._numbered():
            if unfinished:
                broken = Broken(*place, "this line is damaged")
                break
            place = path, number
            unfinished = not data.endswith(b"\n")
            if not unfinished and (fault := chain.fault(data)):
                broken = Broken(path, number, fault)
                break
        if broken is None and (fault := chain.fault_of_end()):
            broken = Broken(*place, fault)
        return Checked(chain.lines, chain.missing, chain.newest, unfinished and broken is None, broken)

    def _numbered(self) -> Iterator[tuple[Path, int, bytes]]:
        for path in self.files():
            with path.open("rb") as stream:
                for number, data in enumerate(stream, 1):
                    yield path, number, data

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_private_folders(self._folder)
        with lock_file(self._folder / "lock") as descriptor:
            lock(descriptor)
            yield

    def _append(self, facts: dict[str, Any]) -> None:
        files = self.files()
        if files and _cut_unfinished(files[-1]):
            self._count(1)
        missed, key = self._missed, self._keys.newest()
        last = next(filter(None, map(_last_line, reversed(files))), None)
        line = facts | ({"missing": missed} if missed else {})
        line |= {"previous": BEGINNING if last is None else hashlib.sha256(last).hexdigest(), "key": key.name}
        path = files[-1] if files and size_of(files[-1]) < self._rotate_bytes else self._file_after(files)
        _append_whole(path, _encoded_line(_signed(line, key)))
        self._count(-missed)

    def _file_after(self, files: Sequence[Path]) -> Path:
        """Return a new file. Files are numbered: a clock may go back."""
        return self._folder / f"{int(files[-1].stem) + 1 if files else 1:0{DIGITS}}.jsonl"

    def _count(self, missed: int) -> None:
        with self._counting:
            self._missed += missed


class _Chain:
    """Checks lines one after the other."""

    def __init__(self, keys: Sequence[AuditKey]) -> None:
        self._keys = {key.name: (age, key) for age, key in enumerate(keys)}
        self._age = 0
        self._expected = BEGINNING
        self.lines = self.missing = 0
        self.newest: str | None = None

    def fault(self, data: bytes) -> str | None:
        """Return the problem with the next line; None if it is valid."""
        line = _line_in(data)
        if line is None:
            return "this line is damaged"
        if line["previous"] != self._expected:
            return "the line before it was changed or removed"
        if line["key"] not in self._keys:
            return "it is signed with a key that is not in the key file: name the server's key file with --audit-key"
        age, key = self._keys[line["key"]]
        unsigned = {name: value for name, value in line.items() if name != "signature"}
        if data != _encoded_line(_signed(unsigned, key)):
            return "this line was changed"
        if age < self._age:
            return "it is signed with an older key than the line before it"
        self._age, self._expected, self.newest = age, hashlib.sha256(data).hexdigest(), line["signature"]
        self.lines += 1
        self.missing += line.get("missing", 0)
        return None

    def fault_of_end(self) -> str | None:
        """Return what is wrong if no line follows: whoever has an old key could have replaced what came after it."""
        is_newest = not self.lines or self._age == len(self._keys) - 1
        return None if is_newest else "it is not signed with the newest key: lines after it were removed"


def _facts(
    token: str | None, namespace: str | None, call: str, ids: Mapping[str, Sequence[int | str]], error: str | None
) -> dict[str, Any]:
    return {"at": utc_now(), "token": token, "namespace": namespace, "call": call, "ids": ids, "error": error}


def _encoded_line(line: Mapping[str, Any]) -> bytes:
    """Return a line as it is in a file. A surrogate that a client has sent alone becomes an escape of JSON."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _signed(line: Mapping[str, Any], key: AuditKey) -> dict[str, Any]:
    """Return a line with its signature, which only the owner of the key can compute."""
    return {**line, "signature": hmac.new(key.secret, _encoded_line(line), hashlib.sha256).hexdigest()}


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
    is_unfinished = last != b"" and not last.endswith(b"\n")
    if is_unfinished:
        os.truncate(path, size_of(path) - len(last))
    return is_unfinished


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
    if not isinstance(line, dict) or not all(isinstance(line.get(name), str) for name in TEXTS):
        return None
    lists = line.get("ids")
    has_ids = isinstance(lists, dict) and all(isinstance(ids, list) for ids in lists.values())
    return line if has_ids and line.keys() >= set(OTHERS) and isinstance(line.get("missing", 0), int) else None
