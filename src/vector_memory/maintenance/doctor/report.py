"""Findings of the doctor's checks, and the report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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


def agreement(name: str, good: str, bad: object) -> Finding:
    """Return a finding that is fine unless `bad` has a message; then --fix can repair it."""
    return fixable(name, str(bad)) if bad else fine(name, good)


def not_read(failed: Mapping[str, str]) -> str:
    """Say that checks failed, and why the first one did."""
    return f"Not everything can be read; these checks failed: {', '.join(failed)}. {next(iter(failed.values()))}"


def first_names(names: Sequence[str]) -> str:
    """Return the first names, with an ellipsis if there are more."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def named(ids: Collection[int]) -> str:
    """Name memories by their ids, at most NAMED of them."""
    shown = ", ".join(str(number) for number in sorted(ids)[:NAMED])
    if len(ids) == 1:
        return f"memory {shown}"
    return f"{len(ids):,} memories ({shown}{', ...' if len(ids) > NAMED else ''})"


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
                {
                    "part": part,
                    "name": finding.name,
                    "state": finding.state,
                    "message": finding.message,
                    "advice": finding.advice,
                    "fixable": finding.fixable,
                }
                for part, findings in self.parts.items()
                for finding in findings
            ],
            "mended": list(repaired),
        }
