"""Runs the doctor and prints its findings: fits 80 columns, plain text if standard output is not a terminal."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from vector_memory.cli.terminal import console, status
from vector_memory.cli.terminal_text import as_json
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.maintenance.doctor import Doctor
from vector_memory.maintenance.doctor.report import Finding, Report, State
from vector_memory.settings import MemoryAddress, Settings

WIDEST = 100
STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red"}
TITLES = {"installation": "Installation", "place": "Storage", "contents": "Memory"}


def run_doctor(address: MemoryAddress, settings: Settings, *, as_json: bool = False, fix: bool = False) -> bool:
    """Examine the memory at an address, repair it if `fix`, print the findings, and return whether it is healthy."""
    output = Output(Console(stderr=True) if as_json else console())
    doctor = Doctor(address, settings, EmbeddingModel(lambda: load_embedder(settings)))
    repaired: list[str] = []
    with output.waiting("Examining"):
        report = doctor.examine()
    if fix and report.fixable():
        with output.progress() as progress:
            report, repaired = doctor.repair_all(report, progress)
    (output.json if as_json else output.report)(report, repaired)
    return report.healthy


class Output:
    """Prints reports."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, WIDEST)

    def report(self, report: Report, repaired: Sequence[str]) -> None:
        """Print the repairs, every finding, and a summary."""
        self._line("")
        self._line(Text("vector-memory doctor", style="bold"))
        self._console.print(Text(report.database), soft_wrap=True)
        self._repaired(repaired)
        for part, findings in report.parts.items():
            self._line("")
            self._line(Text(TITLES[part], style="bold"))
            self._console.print(_table(findings), width=self._width)
        self._line("")
        self._line(_summary(report))

    def json(self, report: Report, repaired: Sequence[str]) -> None:
        """Print the report as one JSON object."""
        sys.stdout.write(as_json(report.as_json(repaired), sys.stdout.encoding) + "\n")

    def waiting(self, reason: str) -> AbstractContextManager[None]:
        """Show a spinner with a message."""
        return status(reason, self._console)

    @contextmanager
    def progress(self) -> Iterator[Callable[[int, int], None]]:
        """Show a progress bar while vectors are computed; yield a callback for (done, total)."""
        with Progress(console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            task = bar.add_task("Computing vectors", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def _repaired(self, repaired: Sequence[str]) -> None:
        if repaired:
            self._line("")
            self._line(Text("Repaired", style="bold"))
            for line in repaired:
                self._line(Text(f"  {line}"))

    def _line(self, text: Text | str) -> None:
        self._console.print(text, width=self._width)


def _table(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=9)
    table.add_column(min_width=13)
    table.add_column(ratio=1)
    for finding in findings:
        message = Text(finding.message)
        if finding.advice:
            message = Text("\n").join([message, Text(finding.advice, style="cyan")])
        table.add_row(Text(f"  {finding.state}", style=STYLES[finding.state]), Text(finding.name), message)
    return table


def _summary(report: Report) -> Text:
    problems, warnings = report.count(State.PROBLEM), report.count(State.WARNING)
    verdict = Text("Healthy", style="bold green") if report.healthy else Text("Not healthy", style="bold red")
    return Text.assemble(
        verdict, f": {len(report.findings)} checks, {_some(problems, 'problem')}, {_some(warnings, 'warning')}."
    )


def _some(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"
