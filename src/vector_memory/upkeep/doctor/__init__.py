"""The doctor: checks an installation and a memory, and rebuilds what can be derived from the text."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import VectorMemoryError
from vector_memory.extras import extra
from vector_memory.settings import MemoryAddress, Settings
from vector_memory.upkeep.backfill import Progress
from vector_memory.upkeep.doctor import place
from vector_memory.upkeep.doctor.report import Finding, Report

__all__ = ["Doctor"]


# An engine is imported when a memory of it is examined.
# ruff: noqa: PLC0415

ROUNDS = 2
"""Maximum number of rounds of repair: damage can hide other faults."""


class ExaminedMemory(Protocol):
    """A memory of one engine. Its findings change and create nothing."""

    def engine(self) -> Iterable[Finding]:
        """Return the findings about the engine's requirements on this machine."""

    def place(self) -> Iterable[Finding]:
        """Return the findings about where the memory is: a disk, or a database server."""

    def contents(self, *, deep: bool) -> Iterable[Finding]:
        """Return the findings about the contents. `deep`: derive everything from the texts again, and compare."""

    def repair(self, wrong: set[str], on_progress: Progress | None) -> list[str]:
        """Repair the findings with these names; return a sentence for each repair.

        Texts are never changed. Repairs that need the model are skipped if there is none.
        """


class Doctor:
    """Examines the memory at an address. Other processes may be using it."""

    def __init__(self, address: MemoryAddress, settings: Settings, model: EmbeddingModel) -> None:
        self._address = address
        self._settings = settings
        self._model = model
        self._memory = examined_memory(address, settings, model)

    def examine(self, *, deep: bool = False) -> Report:
        """Run all checks. Nothing is changed or created. `deep`: also derive everything from the texts again."""
        parts = {
            "installation": list(place.installation_findings(self._memory.engine(), self._model, self._settings)),
            "place": [*self._memory.place(), *place.git_findings(self._address), place.outbox_finding(self._address)],
            "contents": list(self._memory.contents(deep=deep)),
        }
        return Report(str(self._address), parts)

    def repair(self, report: Report, on_progress: Progress | None = None) -> list[str]:
        """Repair the report's fixable findings; return a sentence for each repair."""
        wrong = report.fixable()
        done = [place.try_again(self._address)] if place.OUTBOX in wrong else []
        return done + (self._memory.repair(wrong - {place.OUTBOX}, on_progress) if wrong - {place.OUTBOX} else [])

    def repair_all(self, report: Report, on_progress: Progress | None = None) -> tuple[Report, list[str]]:
        """Repair and examine deeply until nothing can be repaired; return the last report and the repairs."""
        done: list[str] = []
        for _ in range(ROUNDS):
            if not report.fixable():
                break
            try:
                step = self.repair(report, on_progress)
            except VectorMemoryError as error:
                done.append(f"The repair failed: {error}")
                break
            done += step
            report = self.examine(deep=True)
        return report, done


def examined_memory(address: MemoryAddress, settings: Settings, model: EmbeddingModel) -> ExaminedMemory:
    """Return the memory at an address."""
    if isinstance(address, Path):
        from vector_memory.upkeep.doctor.sqlite_memory import SqliteMemory

        return SqliteMemory(address, settings, model)
    memory: ExaminedMemory = extra("postgres doctor").PostgresMemory(address, settings, model)
    return memory
