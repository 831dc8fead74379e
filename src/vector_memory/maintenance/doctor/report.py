"""Findings of the doctor's checks, and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FIX = "Run `vector-memory doctor --fix`."


class State(StrEnum):
    """The severity of a finding. Warnings do not make a memory unhealthy."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: a sentence, and what to do about it. `fixable`: --fix can repair it."""

    name: str
    state: State
    message: str
    advice: str | None = None
    fixable: bool = False


def fine(name: str, message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(name, State.OK, message)


def warning(name: str, message: str, advice: str) -> Finding:
    """Return a finding that needs attention."""
    return Finding(name, State.WARNING, message, advice)


def problem(name: str, message: str, advice: str | None = None) -> Finding:
    """Return a finding that must be fixed."""
    return Finding(name, State.PROBLEM, message, advice)


def fixable(name: str, message: str, state: State = State.PROBLEM) -> Finding:
    """Return a finding that --fix repairs."""
    return Finding(name, state, message, FIX, fixable=True)


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
        return not self.count(State.PROBLEM)

    def count(self, state: State) -> int:
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
