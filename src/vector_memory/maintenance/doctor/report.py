"""What a check finds, and all findings together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FIX = "Run `vector-memory doctor --fix`."


class State(StrEnum):
    """How good or bad a finding is. Warnings do not make a memory unhealthy."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a plain sentence, and what to do. `fixable`: --fix does it."""

    name: str
    state: State
    message: str
    advice: str | None = None
    fixable: bool = False


def fine(name: str, message: str) -> Finding:
    """Return a finding that is as it should be."""
    return Finding(name, State.OK, message)


def warning(name: str, message: str, advice: str) -> Finding:
    """Return a finding that works, but should be looked after."""
    return Finding(name, State.WARNING, message, advice)


def problem(name: str, message: str, advice: str | None = None) -> Finding:
    """Return a finding that has to be dealt with."""
    return Finding(name, State.PROBLEM, message, advice)


def fixable(name: str, message: str, state: State = State.PROBLEM) -> Finding:
    """Return a finding that --fix deals with."""
    return Finding(name, state, message, FIX, fixable=True)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, by the part of the whole that they are about."""

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
        """Return how many findings are in a state."""
        return sum(finding.state == state for finding in self.findings)

    def fixable(self) -> set[str]:
        """Return the names of what --fix would deal with."""
        return {finding.name for finding in self.findings if finding.fixable}

    def as_json(self, mended: Sequence[str]) -> dict[str, Any]:
        """Return the report as it is printed by --json; its keys only ever become more."""
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
            "mended": list(mended),
        }
