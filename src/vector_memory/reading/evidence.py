"""Compares the evidence of memories with the files of the project that the client works in."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import get_args

from vector_memory.answers.mapping import EvidenceNotes
from vector_memory.answers.models import EvidenceNote
from vector_memory.answers.overview import VerifiedLine, VerifyResult
from vector_memory.domain import Evidence, NewMemory, Project, Scope
from vector_memory.domain.evidence import MOST, EvidenceState, FileLines, evidence_in
from vector_memory.domain.text import counted
from vector_memory.errors import ValidationError
from vector_memory.reading.export import opened_parent
from vector_memory.settings.locations import head_of, main_checkout, real_path
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.evidence import EvidenceOf
from vector_memory.texts.redaction import redact

FoundState = tuple[EvidenceState, int | None]
"""A state, and the first line of what has moved."""

NOWHERE = Project("", owns_memory=False)

UNKNOWN: FoundState = ("unverified", None)

KEPT = 10_000
"""Number of comparisons whose results are kept."""

SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file has another time, on any file system."""


class Checkout:
    """The files of a client's project, if it is on this machine.

    `read`: returns the lines of a file that may be read. It follows no links. `memory`: the file of the memory.
    """

    def __init__(self, read: Callable[[Path, PurePosixPath], FileLines | None], memory: Path | None) -> None:
        self._read, self._memory = read, memory
        self._folder: Path | None = None
        self._project = NOWHERE
        self._compared = lru_cache(maxsize=KEPT)(self._compare)

    def work_in(self, folder: Path | None) -> None:
        """Look for files in a folder; None: nowhere."""
        self._folder = folder and real_path(folder)
        memory = self._memory and real_path(self._memory)
        self._project = Project.at(main_checkout(folder), memory) if folder else NOWHERE
        self._compared.cache_clear()

    def with_evidence(self, new: NewMemory, *, in_text: bool) -> NewMemory:
        """Return a memory with the hashes of its evidence. `in_text`: also of paths with line numbers in its text.

        Raises ValidationError for a file that may not be read.
        """
        found = [self._hashed(one) for one in new.evidence]
        for one in islice(dict.fromkeys(evidence_in(new.content)), MOST) if in_text and self._folder else ():
            with suppress(ValidationError):
                found.append(self._hashed(one))
        return replace(new, evidence=tuple(dict.fromkeys(found))[:MOST]) if found else new

    def notes(self, evidence: EvidenceOf) -> dict[int, list[EvidenceNote]]:
        """Tell whether the evidence of memories still holds."""
        return {number: list(map(self._note, held)) for number, held in evidence.items()}

    def _note(self, one: Evidence) -> EvidenceNote:
        state, first = self._state(one)
        length = (one.last_line or 0) - (one.first_line or 0)
        return EvidenceNote(
            path=one.path,
            lines=None if one.first_line is None else named_lines(one.first_line, length),
            state=state,
            moved_to=None if first is None else named_lines(first, length),
            commit=one.at_commit,
        )

    def _state(self, one: Evidence) -> FoundState:
        place = path_within(one.path)
        is_here = self._project.owns_memory or one.project == self._project.folder
        if self._folder is None or place is None or one.lines_hash is None or not is_here:
            return UNKNOWN
        try:
            with opened_parent(self._folder, place.parts[:-1], make=False) as parent:
                status = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return "gone", None
        except OSError:
            return UNKNOWN
        if (status.st_size, status.st_mtime_ns) == (one.file_size, one.file_mtime):
            return "fresh", None
        return self._compared(one, status.st_size, status.st_mtime_ns, status.st_ino)

    def _compare(self, one: Evidence, *_status: int) -> FoundState:
        content = self._folder and self._read(self._folder, PurePosixPath(one.path))
        return one.state_in(content) if content else UNKNOWN

    def _hashed(self, one: Evidence) -> Evidence:
        """Return evidence with the hashes of its file, if it is here. Raises ValidationError."""
        place = path_within(one.path, self._folder)
        if place is None:
            raise ValidationError(
                "The path of evidence must be a file in the project, without '..' and without names that start with a "
                "dot, for example src/auth.py."
            )
        one = replace(one, path=str(place))
        if self._folder is None:
            return one
        one, head = replace(one, project=self._project.folder), head_of(self._folder)
        if one.at_commit and not (head and head.startswith(one.at_commit)):
            return one  # what the lines were is not known
        content = self._read(self._folder, place)
        if content is None or not one.among(content):
            raise ValidationError(
                f"evidence names {place}, which the project does not have, or not as many lines of it, or which is "
                "ignored, linked or too long: send a file of the project and its lines, or omit it."
            )
        one = replace(one, at_commit=head)
        if one.first_line is not None and redact(b"\n".join(one.span(content)).decode(errors="replace")).count:
            return one
        is_settled = time.time_ns() - content.mtime > SETTLED
        return one.of(content if is_settled else content._replace(mtime=0))


def path_within(path: str, folder: Path | None = None) -> PurePosixPath | None:
    """Return a path relative to the project, in whose folder it may begin; None: it is outside, or hidden."""
    place = PurePosixPath(path)
    if folder is not None and place.is_relative_to(folder):
        place = place.relative_to(folder)
    is_hidden = place.is_absolute() or any(part.startswith(".") for part in place.parts)
    return None if is_hidden or not place.parts or "\0" in path else place


def named_lines(first: int, more: int) -> str:
    """Return a range of lines."""
    return f"{first}-{first + more}" if more else str(first)


def no_longer(notes: Mapping[int, Sequence[EvidenceNote]]) -> list[VerifiedLine]:
    """Return what has changed, or is gone, by the ids of the memories."""
    return [
        VerifiedLine(memory_id=number, **vars(note))
        for number, held in notes.items()
        for note in held
        if note.state in ("changed", "gone")
    ]


def verified(storage: Storage, notes: EvidenceNotes, scope: Scope) -> VerifyResult:
    """List what no longer holds of the evidence of a scope's memories."""
    with storage.read() as reader:
        evidence = reader.evidence.within(scope)
    found = notes(evidence)
    lines, states = no_longer(found), Counter[str](note.state for held in found.values() for note in held)
    counts = ", ".join(f"{states[state]:,} {state}" for state in get_args(EvidenceState) if states[state])
    said = f"Evidence of {counted(len(found), 'memory', 'memories')}: {counts}." if found else "No memory has evidence."
    return VerifyResult(lines=lines, counts=states, message=said)
