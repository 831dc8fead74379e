# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The command that stores the past sessions of clients."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.commands.transfer import backfilled
from vector_memory.cli.flags import AsJson, HiddenSettingsFlags, LocationFlags, Switch, creatable, files_of, given_path
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import one_line, progress, resumable, tell
from vector_memory.domain import MemoryKind
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError
from vector_memory.settings import DatabaseLocation, Settings
from vector_memory.store import SessionMemoryStore

if TYPE_CHECKING:
    from vector_memory.transcripts.importing import ImportedSessions

NOUNS = {
    MemoryKind.INPUT_PROMPT: ("prompt",),
    MemoryKind.WORKING_MEMORY: ("answer",),
    MemoryKind.REPORT: ("report",),
    MemoryKind.SESSION_CONTEXT: ("summary", "summaries"),
}


def import_sessions(
    project: Annotated[
        Path | None, Parameter(help="Folder whose sessions are stored, with those below it; default: this folder.")
    ] = None,
    /,
    *,
    all_projects: Annotated[bool, Switch(name="--all", help="Store the sessions of all projects.")] = False,
    client: Annotated[
        Literal["claude", "codex"] | None, Parameter(help="Only the sessions of this client; default: both.")
    ] = None,
    dry_run: Annotated[bool, Switch(help="Only say what would be stored.")] = False,
    no_redact: Annotated[bool, Switch(help="Store secrets and <private> parts too.")] = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> int:
    """Store the past sessions of Claude Code and Codex. Can be interrupted and repeated: it adds only what is new.

    Prompts, long answers, sub-agents' reports and summaries keep their times and session ids.
    Tool results are left out. Secrets and the contents of <private> tags are replaced.

    Exit code 0: every transcript was read, 1: some were not.
    """
    from vector_memory.transcripts.importing import CLIENTS, Importer

    if project is not None and all_projects:
        raise ConfigurationError("--all stores the sessions of all projects: omit the folder, or --all.")
    address = creatable(place)
    set_up_logging("ERROR", settings.log_file, files_of(address))
    folder = None if all_projects else given_path(project or Path())
    clients = [client] if client else list(CLIENTS)
    missing, problem = 0, None
    with resumable(), SessionMemoryStore(address, settings, read_only=dry_run) as store:
        with progress("Transcripts") as update:
            result = Importer(store, is_dry=dry_run, redacts=not no_redact).run(clients, folder, update)
        if result.stored and not dry_run:
            with progress("Vectors") as update:
                missing, problem = backfilled(store, update)
    body = {"success": not result.unread, "dry_run": dry_run, **facts(result), "without_vectors": missing}
    tell(body, "\n".join([*said(result, is_dry=dry_run), *filter(None, [problem])]), as_json=as_json)
    return 1 if result.unread else 0


def facts(result: "ImportedSessions") -> dict[str, object]:
    """Return the result as JSON values."""
    return {
        "transcripts": result.transcripts,
        "sessions": len(result.sessions),
        "stored": result.stored.total(),
        "kinds": {str(kind): count for kind, count in result.stored.items()},
        "skipped": result.skipped,
        "redacted": result.redacted,
        "nul_characters": result.nul_characters,
        "unread": [{"file": str(unread.path), "reason": unread.reason} for unread in result.unread],
    }


def said(result: "ImportedSessions", *, is_dry: bool) -> list[str]:
    """Return the result in sentences."""
    unread = [f"Not stored: {one_line(str(path))}: {reason}" for path, reason in result.unread]
    if not result.transcripts:
        return [*unread, "No past sessions were found; --all looks in all projects."]
    kinds = [counted(result.stored[kind], *nouns) for kind, nouns in NOUNS.items() if result.stored[kind]]
    sessions = counted(len(result.sessions), "session")
    memories = counted(result.stored.total(), "memory", "memories")
    of_what = f" of {sessions}: {', '.join(kinds)}" if kinds else ""
    verb, replaced = ("Would store", "Would replace") if is_dry else ("Stored", "Replaced")
    lines = [*unread, f"{verb} {memories}{of_what}; {result.skipped:,} already stored."]
    if result.redacted:
        lines.append(f"{replaced} {counted(result.redacted, 'secret or private part', 'secrets or private parts')}.")
    if result.nul_characters:
        lines.append(f"{replaced} {counted(result.nul_characters, 'NUL character')} by U+FFFD.")
    return lines
