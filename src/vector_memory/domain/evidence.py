"""Evidence: the lines of a project's files that a memory is about, and whether they are still there.

No code is kept, only hashes of it. Lines are compared without the white space at their ends.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Any, Literal, NamedTuple, Self
from zlib import crc32

from vector_memory.domain.validation import check_label
from vector_memory.errors import ValidationError

EvidenceState = Literal["fresh", "moved", "changed", "gone", "unverified"]
"""Whether lines are as they were, only elsewhere in their file, or not; whether the file is gone; or nobody knows."""

MOST, MAX_PATH = 20, 1_000

LINES = re.compile(r"(\d{1,8})(?:\s*-\s*(\d{1,8}))?")
COMMIT = re.compile(r"[0-9a-f]{7,64}")
IN_TEXT = re.compile(r"(?<![\w@:/.+-])((?:[\w@+-][\w.@+-]*/)*[\w@+-][\w.@+-]*\.\w{1,12}):\d{1,8}(?:-\d{1,8})?(?!\w)")
"""A path with line numbers, such as `src/auth.py:42` or `auth.py:42-60`."""

HASH_BYTES = 16


class FileLines(NamedTuple):
    """The lines of a file, and the size and time of change that the file had."""

    lines: Sequence[bytes]
    size: int
    mtime: int

    @classmethod
    def of(cls, data: bytes, size: int, mtime: int) -> Self:
        """Return the content of a file."""
        lines = [line.rstrip() for line in data.split(b"\n")]
        return cls(lines if lines[-1] else lines[:-1], size, mtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Lines of a file. `first_line`, `last_line`: from 1 on, both inclusive; None: the whole file.

    `at_commit`: the commit that was checked out, or that the caller names. `project`: the folder that the path begins
    in. The rest is None if nothing was read: `lines_hash`, a sum of checksums that finds candidates for it, the hash of
    the file, its size, and when it was changed.
    """

    path: str
    first_line: int | None = None
    last_line: int | None = None
    at_commit: str | None = None
    project: str | None = None
    lines_hash: str | None = None
    lines_sum: int | None = None
    file_hash: str | None = None
    file_size: int | None = None
    file_mtime: int | None = None

    def among(self, content: FileLines) -> bool:
        """Whether a file has these lines."""
        return self.last_line is None or self.last_line <= len(content.lines)

    def span(self, content: FileLines) -> Sequence[bytes]:
        """Return the lines as a file has them."""
        return content.lines if self.first_line is None else content.lines[self.first_line - 1 : self.last_line]

    def of(self, content: FileLines) -> "Evidence":
        """Return the evidence with the hashes of a file."""
        span = self.span(content)
        return replace(
            self,
            lines_hash=hash_of_lines(span),
            lines_sum=sum(map(crc32, span)),
            file_hash=hash_of_lines(content.lines),
            file_size=content.size,
            file_mtime=content.mtime,
        )

    def state_in(self, content: FileLines) -> tuple[EvidenceState, int | None]:
        """Return the state of the lines in a file as it is now, and their first line if they have moved."""
        if hash_of_lines(content.lines) == self.file_hash or hash_of_lines(self.span(content)) == self.lines_hash:
            return "fresh", None
        found = list(islice(self._places(content.lines), 2))
        return ("moved", found[0] + 1) if len(found) == 1 else ("changed", None)

    def _places(self, lines: Sequence[bytes]) -> Iterator[int]:
        if self.first_line is None or self.last_line is None:
            return
        length = self.last_line - self.first_line + 1
        sums = list(accumulate(map(crc32, lines), initial=0))
        starts = (start for start, end in enumerate(sums[length:]) if end - sums[start] == self.lines_sum)
        yield from (start for start in starts if hash_of_lines(lines[start : start + length]) == self.lines_hash)


def hash_of_lines(lines: Sequence[bytes]) -> str:
    """Return the hash of lines."""
    return blake2b(b"\n".join(lines), digest_size=HASH_BYTES).hexdigest()


def parse_evidence(value: Sequence[Mapping[str, Any]] | None) -> tuple[Evidence, ...]:
    """Return what a caller names as evidence. Raises ValidationError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > MOST or not all(isinstance(one, dict) for one in value):
        raise ValidationError(f'evidence must be a list of at most {MOST}, for example [{{"path": "src/auth.py"}}].')
    return tuple(dict.fromkeys(map(_entry_of, value)))


def _entry_of(sent: Mapping[str, Any]) -> Evidence:
    if unknown := sent.keys() - {"path", "lines", "commit"}:
        raise ValidationError(f"evidence has no {min(map(str, unknown))}: send path, lines and commit.")
    lines, commit = sent.get("lines"), sent.get("commit")
    found = None if lines is None else LINES.fullmatch(str(lines).strip())
    if lines is not None and (found is None or not _are_lines(found)):
        raise ValidationError('lines must be a line or a range, counted from 1, for example "42" or "42-60".')
    if commit is not None and not (isinstance(commit, str) and COMMIT.fullmatch(commit)):
        raise ValidationError("commit must be the hash of a commit, in 7 to 64 hex digits: send it, or omit it.")
    path = check_label("path", sent.get("path"), MAX_PATH)
    return _evidence(path, found, commit)


def evidence_in(text: str) -> Iterator[Evidence]:
    """Yield the paths with line numbers in a text."""
    for found in IN_TEXT.finditer(text):
        lines = LINES.fullmatch(found[0].rpartition(":")[2])
        if lines and _are_lines(lines):
            yield _evidence(found[1], lines)


def _are_lines(found: re.Match[str]) -> bool:
    return 0 < int(found[1]) <= int(found[2] or found[1])


def _evidence(path: str, lines: re.Match[str] | None, commit: str | None = None) -> Evidence:
    if lines is None:
        return Evidence(path=path, at_commit=commit)
    first = int(lines[1])
    return Evidence(path=path, first_line=first, last_line=int(lines[2] or first), at_commit=commit)
