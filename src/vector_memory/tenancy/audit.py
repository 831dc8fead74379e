"""A record of who did what: one line for each call, chained by hashes, so that a removed or changed line shows.

Lines hold names and ids, never content. Each file begins where the one before ended, so that whole files cannot be
removed unseen either, except the newest lines and files: note the last hash elsewhere to see that, too.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vector_memory.domain import utc_now
from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import make_private_folders
from vector_memory.storage.disk.locking import lock, lock_file
from vector_memory.tenancy.callers import Caller

FOLDER = "audit"
BEGINNING = "0" * 64
"""What the very first line is chained to."""

ROTATE_BYTES = 64 * 2**20
LONGEST_LINE = 64 * 2**10
IDS_LISTED = 100


@dataclass(frozen=True, slots=True)
class Broken:
    """Where the chain does not hold: `file`, and the number of the `line`, from 1."""

    file: Path
    line: int
    reason: str


class AuditLog:
    """The audit files of a data folder. Safe to use from several threads and processes."""

    def __init__(self, data_dir: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._folder = data_dir / FOLDER
        self._rotate_bytes = rotate_bytes

    def record(
        self,
        caller: Caller,
        call: str,
        *,
        ids: Mapping[str, Sequence[int | str]],
        error: str | None = None,
    ) -> None:
        """Append a line: who called what, on which ids, and how it ended. Raises DatabaseError if it cannot."""
        line = {
            "at": utc_now(),
            "token": caller.name,
            "namespace": caller.namespace,
            "call": call,
            "ids": {name: list(values)[:IDS_LISTED] for name, values in ids.items() if values},
            "error": error,
        }
        try:
            self._append(line)
        except OSError as failure:
            raise DatabaseError("The audit log cannot be written: see the server's log.") from failure

    def files(self) -> list[Path]:
        """Return the files, the oldest first."""
        return sorted(self._folder.glob("*.jsonl"))

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, the oldest first. Lines that are damaged are left out: `verify` names them."""
        for path in self.files():
            with path.open("rb") as stream:
                for data in stream:
                    if (line := _parsed(data)) is not None:
                        yield line

    def verify(self) -> Broken | None:
        """Return the first place where a line was changed, removed or added; None: all are as they were written."""
        expected = BEGINNING
        for path in self.files():
            with path.open("rb") as stream:
                for number, data in enumerate(stream, 1):
                    line = _parsed(data)
                    if line is None:
                        return Broken(path, number, "this line is damaged")
                    if line.get("previous") != expected:
                        return Broken(path, number, "the line before it was changed or removed")
                    if line.get("hash") != _hash(line) or data != _encoded(line):
                        return Broken(path, number, "this line was changed")
                    expected = line["hash"]
        return None

    def _append(self, facts: dict[str, Any]) -> None:
        make_private_folders(self._folder)
        with lock_file(self._folder / "lock") as descriptor:
            lock(descriptor)
            newest = self.files()[-1:]
            if newest:
                _cut_half_line(newest[0])
            line = facts | {"previous": _last_hash(newest[0]) if newest else BEGINNING}
            data = _encoded(line | {"hash": _hash(line)})
            path = newest[0] if newest and newest[0].stat().st_size < self._rotate_bytes else self._new_file()
            target = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            try:
                os.write(target, data)
            finally:
                os.close(target)

    def _new_file(self) -> Path:
        return self._folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}.jsonl"


def _encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line as it is in a file."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _hash(line: Mapping[str, Any]) -> str:
    """Return the hash of a line, which includes that of the line before."""
    hashed = {name: value for name, value in line.items() if name != "hash"}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _cut_half_line(path: Path) -> None:
    """Remove the beginning of a line that a process was writing when the power failed."""
    with path.open("r+b") as stream:
        start = max(0, stream.seek(0, os.SEEK_END) - LONGEST_LINE)
        stream.seek(start)
        tail = stream.read()
        if not tail.endswith(b"\n"):
            stream.truncate(start + tail.rfind(b"\n") + 1)


def _last_hash(path: Path) -> str:
    """Return the hash in the last line of a file."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - LONGEST_LINE))
        last = stream.read().splitlines()[-1:]
    line = _parsed(last[0]) if last else None
    return BEGINNING if line is None else str(line.get("hash"))


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(data)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
