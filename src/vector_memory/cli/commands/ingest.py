# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The command that stores files."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple

from cyclopts import Parameter
from rich.text import Text

from vector_memory.cli.commands.ingest_files import files_of, source_of, text_of, title_of
from vector_memory.cli.flags import AsJson, HiddenSettingsFlags, Kind, LocationFlags
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import console, one_line, print_json, progress, resumable
from vector_memory.domain import TRAITS, MemoryKind, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import ChunkingError, ConfigurationError, DuplicateMemoryError, ValidationError
from vector_memory.settings import DatabaseLocation, Settings
from vector_memory.store import SessionMemoryStore

FAILURES_SHOWN = 20


class Outcome(NamedTuple):
    """The outcome for a file. `memory_id`: the memory that contains its text, even if it existed before."""

    file: str
    state: Literal["stored", "skipped", "failed"]
    memory_id: int | None = None
    reason: str | None = None


def ingest(
    *paths: Annotated[
        str,
        Parameter(
            help="Files, folders, patterns such as 'notes/**/*.md', or - for standard input.", allow_leading_hyphen=True
        ),
    ],
    session: Annotated[str | None, Parameter(help="Session; required unless --kind is knowledge_base.")] = None,
    kind: Annotated[Kind, Parameter(help="Kind of the memories.")] = MemoryKind.REPORT,
    agent: Annotated[str, Parameter(help="Agent that stores them.")] = "command-line",
    iteration: Annotated[str | None, Parameter(name="--iter", help="Iteration, such as 2 or v2; default 1.")] = None,
    task: Annotated[str | None, Parameter(help="Task label.")] = None,
    category: Annotated[str | None, Parameter(help="Category; for --kind knowledge_base.")] = None,
    tags: Annotated[list[str] | None, Parameter(help="Tag for all memories; repeatable.")] = None,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> int:
    """Store Markdown or text files, each as a memory. Can be interrupted and repeated: stored files are skipped.

    In folders, all .md, .markdown and .txt files that are not hidden are stored.

    The title is the first heading or, without one, the file name. The metadata keeps the path as `source`.

    Exit code 0: every file is stored, 1: some are not.
    """
    set_up_logging("ERROR", settings.log_file, [place.file()])
    _require_storable(paths, kind, session)
    # Report errors that affect every file only once.
    Scope(agent_id=agent, session_id=session, session_iter=iteration, task_code=task, category=category, tags=tags)
    files = files_of(paths)
    with resumable(), SessionMemoryStore(place.file(), settings) as store:

        def keep(file: str) -> int | None:
            text = text_of(file)
            source = source_of(file)
            return store.store_memory(
                kind,
                text,
                agent_id=agent,
                session_id=session,
                session_iter=iteration,
                task_code=task,
                title=title_of(file, text),
                tags=tags,
                metadata=None if source is None else {"source": source},
                category=category,
            ).memory_id

        with progress("Storing") as update:
            outcomes = _outcomes(files, keep, update)
        missing = store.get_memory_stats().without_vectors
    counts: Counter[str] = Counter(outcome.state for outcome in outcomes)
    if as_json:
        summary = {state: counts[state] for state in ("stored", "skipped", "failed")}
        files_said = [outcome._asdict() for outcome in outcomes]
        print_json({"success": not counts["failed"], **summary, "without_vectors": missing, "files": files_said})
    else:
        _print(outcomes, counts, missing)
    return 1 if counts["failed"] else 0


def _require_storable(paths: Sequence[str], kind: MemoryKind, session: str | None) -> None:
    """Raise ConfigurationError if no file is named, or the kind cannot be stored like this."""
    if not paths:
        raise ConfigurationError("Specify what to store: files, folders, patterns, or - for standard input.")
    if kind == MemoryKind.TAGGED:
        raise ConfigurationError("Only agents can store tagged memories: choose another --kind, for example report.")
    if TRAITS[kind].session_scoped and session is None:
        raise ConfigurationError(f"Memories of kind {kind} belong to a session: add --session with its name.")


def _outcomes(
    files: Sequence[str], keep: Callable[[str], int | None], on_progress: Callable[[int, int], None]
) -> list[Outcome]:
    outcomes = []
    for file in files:
        outcomes.append(_outcome(file, keep))
        on_progress(len(outcomes), len(files))
    return outcomes


def _outcome(file: str, keep: Callable[[str], int | None]) -> Outcome:
    """Store a file. An invalid file does not stop the others; a failure of the database does."""
    try:
        return Outcome(file, "stored", keep(file))
    except DuplicateMemoryError as error:
        return Outcome(file, "skipped", error.memory_id, "It is already stored.")
    except (ValidationError, ChunkingError) as error:
        return Outcome(file, "failed", reason=str(error))


def _print(outcomes: Sequence[Outcome], counts: Counter[str], missing: int) -> None:
    out = console()
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed[:FAILURES_SHOWN]:
        out.print(Text(f"Not stored: {one_line(outcome.file)}: {outcome.reason}", style="red"))
    if len(failed) > FAILURES_SHOWN:
        out.print(Text(f"and {len(failed) - FAILURES_SHOWN:,} more", style="red"))
    out.print(
        Text.assemble(
            (f"Stored {counted(counts['stored'], 'file')}", "bold"),
            f"; {counts['skipped']:,} already stored; {counts['failed']:,} failed.",
        )
    )
    if missing:
        memories = counted(missing, "memory has", "memories have")
        out.print(Text(f"{memories} no vectors: run `vector-memory backfill`.", style="yellow"))
