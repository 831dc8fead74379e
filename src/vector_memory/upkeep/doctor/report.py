"""Findings of the doctor's checks, and the report."""

import platform
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from vector_memory.settings import MemoryAddress, Settings, project_folder
from vector_memory.storage.sqlite.migrations import VERSION

NAMED = 5
"""Maximum number of ids or names in a message."""

FIX = "Run `vector-memory doctor --fix`."


class Level(StrEnum):
    """The severity of a finding. Warnings do not make a memory unhealthy."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: a sentence, and what to do about it. `fixable`: --fix can repair it."""

    name: str
    state: Level
    message: str
    advice: str | None = None
    fixable: bool = False


def fine(name: str, message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(name, Level.OK, message)


def warning(name: str, message: str, advice: str) -> Finding:
    """Return a finding that needs attention."""
    return Finding(name, Level.WARNING, message, advice)


def problem(name: str, message: str, advice: str | None = None) -> Finding:
    """Return a finding that must be fixed."""
    return Finding(name, Level.PROBLEM, message, advice)


def fixable(name: str, message: str, state: Level = Level.PROBLEM) -> Finding:
    """Return a finding that --fix repairs."""
    return Finding(name, state, message, FIX, fixable=True)


def first_names(names: Sequence[str]) -> str:
    """Return the first names, with an ellipsis if there are more."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def named(ids: Collection[int]) -> str:
    """Name memories by their ids, at most NAMED of them."""
    shown = ", ".join(str(number) for number in sorted(ids)[:NAMED])
    if len(ids) == 1:
        return f"memory {shown}"
    return f"{len(ids):,} memories ({shown}{', ...' if len(ids) > NAMED else ''})"


FINDINGS: Mapping[str, tuple[str, str]] = {
    "integrity": ("SQLite finds no damage in the file.", "The file is damaged in {}."),
    "tables": ("The tables match this release.", "Tables, indexes or triggers are missing, altered or unknown: {}."),
    "references": ("Rows and vectors belong together.", "Rows or vectors are missing, or belong to nothing: {}."),
    "indexes": ("All indexes can be used.", "Missing, or not usable: {}."),
    "counts": ("Every memory has its chunks and words.", "Chunks or words of {} are missing, or too many."),
    "index": ("Every vector is filed with its memory.", "Vectors of {} are filed under fields of other memories."),
    "rows": ("Every memory can be read.", "Not completely readable: {}."),
    "text": ("Every text matches its checksum.", "The text of {} has changed since it was stored."),
    "chunks": ("Every chunk matches its text.", "The chunks of {} are missing or do not match the text."),
    "passages": ("Every passage is in its text.", "The passages of {} are missing or do not match the text."),
    "vectors": ("Every passage has its vector.", "Vectors of {} are missing, invalid, or do not match the text."),
    "keywords": ("The keyword index matches the texts.", "The keyword index does not match the {}."),
    "superseded": ("Memories are superseded as linked.", "Superseded state does not match the links: {}."),
    "reading": ("Everything can be read.", "Not everything can be read; these checks failed: {}"),
}
"""Messages about a memory's contents, by check: if nothing is wrong, and if something is."""

WITHOUT_REPAIR = {"text"}
"""The checks whose faults only a backup repairs: derived data can be rebuilt, a text cannot."""


class Advice(NamedTuple):
    """What to do about damage: how --fix repairs it, and how to restore a backup."""

    fix: str
    restore: str


def checked(name: str, wrong: str | Collection[int], advice: Advice) -> Finding:
    """Return the finding of a check of contents. `wrong`: what is wrong, or which memories."""
    good, bad = FINDINGS[name]
    if not wrong:
        return fine(name, good)
    message = bad.format(wrong if isinstance(wrong, str) else named(wrong))
    if name in WITHOUT_REPAIR:
        return problem(name, message, advice.restore)
    return Finding(name, Level.PROBLEM, message, advice.fix, fixable=True)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, by part: installation, place, contents."""

    database: str
    parts: Mapping[str, Sequence[Finding]]

    @property
    def findings(self) -> list[Finding]:
        """All findings in order."""
        return [finding for findings in self.parts.values() for finding in findings]

    @property
    def healthy(self) -> bool:
        """Whether there is no problem."""
        return not self.count(Level.PROBLEM)

    def count(self, state: Level) -> int:
        """Return the number of findings with a state."""
        return sum(finding.state == state for finding in self.findings)

    def fixable(self) -> set[str]:
        """Return the names of the findings that --fix repairs."""
        return {finding.name for finding in self.findings if finding.fixable}

    def as_json(self, repaired: Sequence[str]) -> dict[str, Any]:
        """Return the report as --json prints it. Keys are only ever added."""
        return {
            "healthy": self.healthy,
            "database": self.database,
            "checks": [
                {"part": part, **asdict(finding)} for part, findings in self.parts.items() for finding in findings
            ],
            "mended": list(repaired),
        }


# A report of a bug, which others may read.


NAMING = ("retention", "pending")
"""The settings that name agents and sessions."""

FOLDERS = re.compile(r"(?<![\w.~/])/[^\s'\"`,:;()]*/")
"""The folders of an absolute path."""


def as_bug_report(
    report: Report, address: MemoryAddress, settings: Settings, counts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what others need to find a bug: no text, no name that users chose, no secret, and no absolute path."""
    names = place_names(address)
    changed = settings.model_dump(mode="json", exclude_defaults=True) | {
        name: "set" for name in NAMING if getattr(settings, name)
    }
    return {
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "memory": f"file, schema {VERSION}" if isinstance(address, Path) else "PostgreSQL",
        **{
            part: {name: unnamed(one, names) if isinstance(one, str) else one for name, one in values.items()}
            for part, values in (("settings", changed), ("counts", counts))
        },
        "checks": [
            {"part": part, "name": one.name, "state": one.state, "message": unnamed(one.message, names)}
            for part, findings in report.parts.items()
            for one in findings
        ],
    }


def place_names(address: MemoryAddress) -> dict[str, str]:
    """Return the names of places that messages may contain, and what stands for each."""
    folders = {str(Path.home()): "~", str(project_folder()): "."}
    if isinstance(address, Path):
        return folders
    role = urlsplit(address.url).username or ""
    known = {
        role: "ROLE",
        address.database: "DATABASE",
        address.schema: "SCHEMA",
        **dict.fromkeys(address.hosts, "HOST"),
    }
    return {name: said for name, said in known.items() if name} | folders


def unnamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with these names replaced, and with the last part alone of each other absolute path."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", names[name], text)
    return FOLDERS.sub(".../", text)
