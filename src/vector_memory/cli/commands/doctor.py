"""The command that examines an installation and a memory, and what it prints."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from vector_memory.cli.commands.transfer import backfilled
from vector_memory.cli.flags import ModelFlags, Switch, creatable, existing
from vector_memory.cli.terminal import console, print_json, progress, status
from vector_memory.clients.reading.own_memories import rivals
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import VectorMemoryError
from vector_memory.reading.overview import Overview
from vector_memory.settings import FileLocations, project_folder
from vector_memory.storage.opening import open_storage
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Finding, Level, Report, as_bug_report
from vector_memory.upkeep.doctor.secrets import Secrets
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.outbox import outbox_of_memory

HiddenFileFlags = Annotated[FileLocations, Parameter(name="*", show=False)]

WIDEST = 100
FOR_A_BUG = (
    "Print what a report of a bug needs, as JSON: versions, settings, counts and findings. It has no stored text, no "
    "names of sessions, agents, databases and people, no secrets and no absolute paths."
)
NOT_COUNTS = {"success", "message", "error", "recalls", "earliest_created", "latest_created"}
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
TITLES = {"installation": "Installation", "place": "Storage", "contents": "Memory", "clients": "Clients"}


def doctor(
    *,
    deep: Annotated[bool, Switch(help="Derive chunks, words and vectors again, and compare them.")] = False,
    fix: Annotated[bool, Switch(help="Check as --deep does, repair permissions, and rebuild derived data.")] = False,
    secrets: Annotated[bool, Switch(help="Only look for stored secrets; with --fix, remove them in place.")] = False,
    files: HiddenFileFlags = FileLocations(),
    report_bug: Annotated[bool, Switch(name="--report", help=FOR_A_BUG)] = False,
    here: ModelFlags = ModelFlags(),
) -> int:
    """Check the installation and the memory. Exit code 0: healthy, 1: not healthy.

    Changes nothing without --fix. To repair a damaged file, --fix copies it: stop all servers first.

    With --secrets, servers can keep running. Backups, exports and logs elsewhere keep what they have.
    """
    if secrets:
        return _secrets(files.folder(), here, fix=fix)
    address = here.log(creatable(here.place))
    examiner = Doctor(address, here.settings, EmbeddingModel(lambda: load_embedder(here.settings)))
    repaired: list[str] = []
    with status("Examining"):
        report = examiner.examine(deep=deep or fix)
    if fix and report.fixable():
        with progress("Computing vectors") as update:
            report, repaired = examiner.repair_all(report, update)
    report = replace(
        report, parts={**report.parts, "clients": rivals(project_folder()) if here.settings.own_memories else []}
    )
    if report_bug:
        print_json(as_bug_report(report, address, here.settings, stored_counts(here)))
    elif here.as_json:
        print_json(report.as_json(repaired))
    else:
        print_report(report, repaired)
    return 0 if report.healthy else 1


def _secrets(folder: Path, here: ModelFlags, *, fix: bool) -> int:
    """Find what has secrets, remove them with `fix`, and say what was found, without a word of it."""
    address = here.log(existing(here.place))
    with closing(open_storage(address, dimensions=here.settings.embedding_dim, read_only=not fix)) as storage:
        secrets = Secrets(storage, outbox_of_memory(address), folder)
        with progress("Memories") as update:
            found = secrets.find(update)
        if fix and found:
            indexer = Indexer(EmbeddingModel(lambda: load_embedder(here.settings)), here.settings)
            with progress("Removing") as update:
                secrets.remove(found, indexer, update)
    if fix and found:
        with here.store(address) as store, progress("Vectors") as update:
            backfilled(store, update)
    numbers = [one for one in found if isinstance(one, int)]
    files = [str(one) for one in found if isinstance(one, Path)]
    kinds = sum(found.values(), Counter[str]())
    what = f"{counted(len(numbers), 'memory', 'memories')} and {counted(len(files), 'file')}"
    which = ", ".join(f"{kinds[one]:,} {one}" for one in kinds)
    message = f"{'Removed' if fix else 'Found'} secrets in {what}: {which}." if found else "Found no secrets."
    advice = "" if fix or not found else "\nTo remove them: vector-memory doctor --secrets --fix"
    named = "".join(f"\n{one}" for one in [f"Memories: {', '.join(map(str, numbers))}"] * bool(numbers) + files)
    body = {"success": True, "fixed": fix, "kinds": kinds, "memory_ids": numbers, "files": files, "message": message}
    here.tell(body, message + named + advice)
    return 0 if fix or not found else 1


def stored_counts(here: ModelFlags) -> dict[str, Any]:
    """Return how much is stored, or why that cannot be counted."""
    try:
        with here.opened() as storage:
            found = Overview(storage).memory_stats()
    except VectorMemoryError as error:
        return {"error": error.code}
    return found.model_dump(exclude=NOT_COUNTS)


def print_report(report: Report, repaired: Sequence[str]) -> None:
    """Print the repairs, every finding, and a summary."""
    out = console()
    out.width = min(out.width, WIDEST)
    out.print(Text("\nvector-memory doctor", style="bold"))
    out.print(Text(report.database), soft_wrap=True)
    if repaired:
        out.print(Text("\nRepaired", style="bold"))
        for line in repaired:
            out.print(Text(f"  {line}"))
    for part, findings in report.parts.items():
        if not findings:
            continue
        out.print(Text(f"\n{TITLES[part]}", style="bold"))
        out.print(_findings_table(findings))
    out.print()
    out.print(_summary(report))


def _findings_table(findings: Sequence[Finding]) -> Table:
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
    problems, warnings = report.count(Level.PROBLEM), report.count(Level.WARNING)
    verdict = Text("Healthy", style="bold green") if report.healthy else Text("Not healthy", style="bold red")
    return Text.assemble(
        verdict, f": {len(report.findings)} checks, {_some(problems, 'problem')}, {_some(warnings, 'warning')}."
    )


def _some(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"
