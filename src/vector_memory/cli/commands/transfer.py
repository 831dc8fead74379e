"""The commands that export, import and copy memories, and store past sessions of clients."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.flags import (
    MemoryFlags,
    OutputFlags,
    Overwrite,
    StoreFlags,
    Switch,
    creatable,
    existing,
    files_of,
    given_path,
    window,
)
from vector_memory.cli.terminal import one_line, progress, resumable
from vector_memory.clients.registry import WITH_SESSIONS
from vector_memory.domain import ANY, MemoryKind, Trust
from vector_memory.domain.text import counted
from vector_memory.domain.user_files import open_regular
from vector_memory.errors import ConfigurationError, EmbeddingUnavailableError, OtherModelError, ValidationError
from vector_memory.settings import DatabaseLocation, MemoryAddress, project_folder
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.copying import copy_all
from vector_memory.upkeep.export_lines import is_sqlite, new_file, notes_as_export

if TYPE_CHECKING:
    from vector_memory.clients.reading.importing import ImportedSessions

    SessionsOf = str
else:  # cyclopts would not offer names that are known only when it runs
    SessionsOf = Literal[tuple(WITH_SESSIONS)]

STANDARD = Path("-")
"""Standard input or output."""


def export(
    session: Annotated[str | None, Parameter(help="Only this session; default: the whole memory.")] = None,
    /,
    *,
    output: Annotated[
        Path, Parameter(alias="-o", help="File to write; - is standard output.", allow_leading_hyphen=True)
    ] = STANDARD,
    vectors: Annotated[bool, Switch(help="Include the vectors.")] = False,
    as_of: Annotated[str, Parameter(help="Only what was current at the end of this date or time.")] = ANY,
    overwrite: Overwrite = False,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """Write one session, or the whole memory, as JSON Lines. Servers can keep writing.

    Without --as-of, superseded memories are written too, with what superseded them.
    """
    address = existing(here.place)
    then = window(None, None, as_of).get("as_of") or ANY
    with SessionMemoryStore(address, read_only=True) as store, progress("Memories") as update:
        if output == STANDARD:
            store.export_memories(sys.stdout.buffer, session, with_vectors=vectors, as_of=then, on_progress=update)
            return
        target = given_path(output)
        with new_file(target, overwrite=overwrite, databases=files_of(address)) as stream:
            written = store.export_memories(stream, session, with_vectors=vectors, as_of=then, on_progress=update)
    with_them = "with" if written.with_vectors else "without"
    here.tell(
        {"success": True, **written._asdict(), "file": str(target), "bytes": target.stat().st_size},
        f"Wrote {counted(written.memories, 'memory', 'memories')} {with_them} vectors to {target}",
    )


def import_(
    source: Annotated[
        Path,
        Parameter(
            help="File written by export, or database of a tagged memory server; - is standard input.",
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *,
    as_session: Annotated[
        str | None, Parameter(name="--as", help="Import its only session under this id, as a fork.")
    ] = None,
    trust: Annotated[Trust, Parameter(help="Trust them at most so far, whatever the export says.")] = Trust.HIGH,
    here: StoreFlags = StoreFlags(),
) -> None:
    """Add the memories of an export; memories that already exist are skipped. Can be interrupted and repeated.

    Also imports a database of the tagged memory server that preceded this one,
    without changing it. If any line of an export is invalid, nothing is changed.
    Vectors of another model are recomputed.
    """
    place = creatable(here.place)
    with opened_export(source) as stream, resumable():
        with here.store(place) as store:
            with progress("Memories") as update:
                result = store.import_memories(stream, as_session=as_session, on_progress=update, most=trust)
            said = [f"Added {counted(result.added, 'memory', 'memories')}; {result.skipped:,} already existed."]
            missing = 0
            if result.without_vectors:
                with progress("Vectors") as update:
                    missing, problem = backfilled(store, update)
                said += [problem] if problem else []
        if result.nul_characters:
            said.append(f"Replaced {counted(result.nul_characters, 'NUL character')} by U+FFFD.")
        if result.orphaned:
            said.append(f"{counted(result.orphaned, 'observation')} imported without the report that they refer to.")
        if result.expired:
            said.append(f"Left out {counted(result.expired, 'memory', 'memories')} that have expired.")
    body = {"success": True, **result._asdict(), "without_vectors": missing, "message": " ".join(said)}
    if not result.expired:
        del body["expired"]
    here.tell(body, "\n".join(said))


def backfilled(store: SessionMemoryStore, on_progress: Callable[[int, int], None]) -> tuple[int, str | None]:
    """Compute missing vectors; return how many memories still have none, and what to do about them."""
    try:
        missing = store.backfill_embeddings(on_progress).memories_remaining
    except EmbeddingUnavailableError:
        missing = store.get_memory_stats().without_vectors
    return missing, how_to_complete(store, missing) if missing else None


def how_to_complete(store: SessionMemoryStore, missing: int) -> str:
    """Say how many memories have no vectors, and what to do about them."""
    said = f"{counted(missing, 'memory', 'memories')} without vectors"
    try:
        store.explaining.require_comparable()
    except OtherModelError as error:
        return f"{said}. {error}"
    except EmbeddingUnavailableError as error:
        said = f"{error} {said}"
    return f"{said}: run `vector-memory backfill`."


@contextmanager
def opened_export(source: Path) -> Iterator[IO[bytes]]:
    """Yield a seekable export: a file, standard input, or the notes of another server's database.

    Raises ValidationError if it cannot be read.
    """
    if source == STANDARD:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy
        return
    try:
        descriptor = open_regular(given_path(source))
    except OSError as error:
        raise ValidationError(f"{source} cannot be read ({error.strerror}): choose a file written by export.") from None
    with os.fdopen(descriptor, "rb") as stream:
        if not is_sqlite(stream):
            yield stream
            return
    with notes_as_export(given_path(source)) as export:
        yield export


SCHEMES = ("postgresql://", "postgres://")


def copy(
    source: Annotated[str, Parameter(help="Memory to copy: a file, or postgresql://USER@HOST/DATABASE.")],
    target: Annotated[str, Parameter(help="Empty memory to copy it to: a file or a URL, created if necessary.")],
    /,
    *,
    database_unencrypted: Annotated[
        bool,
        Switch(help="Accept connections without TLS to a database on another machine, in a network that you trust."),
    ] = False,
    here: OutputFlags = OutputFlags(),
) -> None:
    """Copy a memory with its ids, times and vectors, from a file to PostgreSQL or back.

    Reads back and compares everything it writes. Can be interrupted and repeated.

    Servers can keep using the source: the next run copies what they stored.

    No process may use the target before the copy is complete.
    """
    source_at = existing(location_of(source, unencrypted=database_unencrypted))
    target_at = creatable(location_of(target, unencrypted=database_unencrypted))
    if is_same(source_at, target_at):
        raise ConfigurationError(f"{target_at} is the source itself: choose another target.")
    with resumable():
        copied = copy_all(source_at, target_at, progress)
    before = copied.memories - copied.written
    known = f", {before:,} of them in an earlier run," if before else ""
    gone = f". Removed {copied.removed:,} that the source no longer has." if copied.removed else ""
    nuls = copied.nul_characters
    replaced = f"Replaced {counted(nuls, 'NUL character')} by U+FFFD.\n" if nuls else ""
    here.tell(
        {"success": True, **copied._asdict(), "source": str(source_at), "target": str(target_at)},
        f"{replaced}Copied {counted(copied.memories, 'memory', 'memories')}{known} to {target_at}{gone}",
    )


def location_of(address: str, *, unencrypted: bool) -> DatabaseLocation:
    """Return the place that an argument names."""
    if address.startswith(SCHEMES):
        return DatabaseLocation(database_url=address, database_unencrypted=unencrypted)
    return DatabaseLocation(database_path=given_path(Path(address)))


def is_same(source_at: MemoryAddress, target_at: MemoryAddress) -> bool:
    """Return whether two addresses name one memory, even through a link or another spelling of its file."""
    if isinstance(source_at, Path) and isinstance(target_at, Path):
        return target_at.exists() and source_at.samefile(target_at)
    return source_at == target_at


NOUNS = {
    MemoryKind.INPUT_PROMPT: ("prompt",),
    MemoryKind.WORKING_MEMORY: ("answer",),
    MemoryKind.REPORT: ("report",),
    MemoryKind.SESSION_CONTEXT: ("summary", "summaries"),
}


def import_sessions(
    project: Annotated[
        Path | None, Parameter(help="Folder whose sessions are stored, with those below it; default: this project.")
    ] = None,
    /,
    *,
    all_projects: Annotated[bool, Switch(name="--all", help="Store the sessions of all projects.")] = False,
    client: Annotated[
        SessionsOf | None, Parameter(help="Only the sessions of this client; default: all of them.")
    ] = None,
    dry_run: Annotated[bool, Switch(help="Only show what would be stored.")] = False,
    no_redact: Annotated[bool, Switch(help="Store secrets and <private> parts too.")] = False,
    again: Annotated[bool, Switch(help="Also store texts that were deleted or have expired.")] = False,
    here: StoreFlags = StoreFlags(),
) -> int:
    """Store the past sessions of agents on this machine. Can be interrupted and repeated: it adds only what is new.

    Prompts, long answers, sub-agents' reports and summaries keep their times and
    session ids. Tool results are left out. Secrets and the contents of <private>
    tags are replaced. Texts that were deleted or have expired since stay gone,
    unless you add --again.

    Exit code 0: every transcript was read, 1: some were not.
    """
    from vector_memory.clients.reading.importing import Importer

    if project is not None and all_projects:
        raise ConfigurationError("--all stores the sessions of all projects: omit the folder, or --all.")
    folder = None if all_projects else given_path(project or project_folder())
    clients = [client] if client else list(WITH_SESSIONS)
    missing, problem = 0, None
    with resumable(), here.store(creatable(here.place), read_only=dry_run) as store:
        with progress("Transcripts") as update:
            importer = Importer(store, is_dry=dry_run, redacts=not no_redact, again=again)
            result = importer.run(clients, folder, update)
        if result.stored and not dry_run:
            with progress("Vectors") as update:
                missing, problem = backfilled(store, update)
    body = {
        "success": not result.unread,
        "dry_run": dry_run,
        "transcripts": result.transcripts,
        "sessions": len(result.sessions),
        "stored": result.stored.total(),
        "kinds": {str(kind): count for kind, count in result.stored.items()},
        "skipped": result.skipped,
        "deleted_earlier": result.deleted_earlier,
        "redacted": result.redacted,
        "nul_characters": result.nul_characters,
        "unknown": dict(result.unknown),
        "unread": [{"file": str(unread.path), "reason": unread.reason} for unread in result.unread],
        "without_vectors": missing,
    }
    here.tell(body, "\n".join([*sentences_about(result, is_dry=dry_run), *filter(None, [problem])]))
    return 1 if result.unread else 0


def sentences_about(result: "ImportedSessions", *, is_dry: bool) -> list[str]:
    """Describe the result in sentences."""
    unread = [f"Not stored: {one_line(str(path))}: {reason}" for path, reason in result.unread]
    if not result.transcripts:
        return [*unread, "No past sessions were found; --all looks in all projects."]
    kinds = [counted(result.stored[kind], *nouns) for kind, nouns in NOUNS.items() if result.stored[kind]]
    sessions = counted(len(result.sessions), "session")
    memories = counted(result.stored.total(), "memory", "memories")
    of_what = f" of {sessions}: {', '.join(kinds)}" if kinds else ""
    verb, replaced = ("Would store", "Would replace") if is_dry else ("Stored", "Replaced")
    lines = [*unread, f"{verb} {memories}{of_what}; {result.skipped:,} already stored."]
    if result.deleted_earlier:
        verb = "was" if result.deleted_earlier == 1 else "were"
        pronoun = "it" if result.deleted_earlier == 1 else "them"
        lines.append(f"{result.deleted_earlier:,} {verb} deleted earlier; --again imports {pronoun}.")
    if result.redacted:
        lines.append(f"{replaced} {counted(result.redacted, 'secret or private part', 'secrets or private parts')}.")
    if result.nul_characters:
        lines.append(f"{replaced} {counted(result.nul_characters, 'NUL character')} by U+FFFD.")
    if result.unknown:
        kinds = [f"{kind} ({count:,})" for kind, count in result.unknown.most_common()]
        lines.append(f"Left out {counted(result.unknown.total(), 'line')} of unknown types: {', '.join(kinds)}.")
    return lines
