"""The commands that store texts and files."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from vector_memory.cli.commands.ingestion import STANDARD_INPUT, Ingestion, LeftOut, changes_in, session_of
from vector_memory.cli.commands.transfer import how_to_complete
from vector_memory.cli.flags import Flags, KindOfFiles, StoreFlags, Switch, creatable, files_of
from vector_memory.cli.terminal import console, one_line, print_json, printable, resumable, say
from vector_memory.domain import TRAITS, CameFrom, MemoryFields, MemoryKind, Project, Scope, Way
from vector_memory.domain.text import counted
from vector_memory.domain.times import check_lifetime
from vector_memory.errors import ConfigurationError, VectorMemoryError
from vector_memory.files.syncing import Outcome, State
from vector_memory.settings.locations import project_folder, real_path

LINES_SHOWN = 20

ADDED: tuple[State, ...] = ("stored", "skipped", "deleted_earlier", "failed")
SYNCED: tuple[State, ...] = ("stored", "updated", "unchanged", "removed", "skipped", "deleted_earlier", "failed")
WORDS = {"skipped": "already stored", "deleted_earlier": "deleted earlier"}
SELDOM = {ADDED: {"deleted_earlier"}, SYNCED: {"deleted_earlier", "skipped"}}
"""Counts that are printed only if there are any: a sync skips nothing, unless two files have the same text."""


@Flags
@dataclass(frozen=True)
class Facts:
    """The fields that all memories of the files share."""

    agent: Annotated[str, Parameter(help="Name of the agent.")] = "command-line"
    iteration: Annotated[str | None, Parameter(name="--iter", help="Iteration, such as 2 or v2; default 1.")] = None
    task: Annotated[str | None, Parameter(help="Task label.")] = None
    category: Annotated[str | None, Parameter(help="Category; for --kind knowledge_base.")] = None
    tags: Annotated[list[str] | None, Parameter(help="Tag of each memory; repeatable.")] = None
    ttl_days: Annotated[float | None, Parameter(help="Days after which a memory expires.")] = None
    expires_at: Annotated[str | None, Parameter(help="Date or time at which it expires instead.")] = None
    supersedes: Annotated[list[str] | None, Parameter(help="Id of a memory that is replaced; repeatable.")] = None

    def fields(self, session: str | None) -> MemoryFields:
        """Return the fields of each memory. Raises ValidationError, once for all files."""
        fields = MemoryFields(
            agent_id=self.agent,
            session_id=session,
            session_iter=self.iteration,
            task_code=self.task,
            tags=self.tags,
            category=self.category,
            ttl_days=self.ttl_days,
            expires_at=self.expires_at,
            supersedes=self.supersedes,
        )
        names = ("agent_id", "session_id", "session_iter", "task_code", "tags", "category")
        Scope(**{name: fields[name] for name in names})  # type: ignore[literal-required]
        check_lifetime(self.ttl_days, self.expires_at)
        return fields


def store_(
    text: Annotated[str, Parameter(help="What to remember, in quotes.", allow_leading_hyphen=True)],
    /,
    *,
    title: Annotated[str | None, Parameter(help="Its title.")] = None,
    session: Annotated[str | None, Parameter(help="Session; default: that of the project and the day.")] = None,
    kind: Annotated[KindOfFiles, Parameter(help="Kind of the memory.")] = MemoryKind.REPORT,
    facts: Facts = Facts(),
    here: StoreFlags = StoreFlags(),
) -> None:
    """Store a text as a memory."""
    address = creatable(here.place)
    if session is None and TRAITS[kind].session_scoped:
        project = Project.at(project_folder(), real_path(address) if isinstance(address, Path) else None)
        session = project.session_on(date.today().isoformat())
    with here.store(address) as opened:
        own = MemoryFields(title=title, came_from=CameFrom(by=Way.COMMAND))
        receipt = opened.store_memory(kind, text, **(facts.fields(session) | own))
    place = f" in session {one_line(receipt.session_id)}" if receipt.session_id else ""
    here.tell(receipt.model_dump(), f"Stored memory {receipt.memory_id}{place}. To find it: vector-memory search WORDS")


def ingest(
    *paths: Annotated[
        str,
        Parameter(
            help="Files, folders, patterns such as 'notes/**/*.md', or - for standard input.", allow_leading_hyphen=True
        ),
    ],
    session: Annotated[str | None, Parameter(help="Session; default: the name of the folder.")] = None,
    kind: Annotated[KindOfFiles, Parameter(help="Kind of the memories.")] = MemoryKind.REPORT,
    sync: Annotated[
        bool, Switch(help="Replace the memories of edited files, and delete those of files removed from a folder.")
    ] = False,
    watch: Annotated[bool, Switch(help="Like --sync, and again after every change.")] = False,
    keep_replaced: Annotated[
        bool, Switch(help="With --sync or --watch: keep earlier texts of edited files, superseded by the new ones.")
    ] = False,
    facts: Facts = Facts(),
    here: StoreFlags = StoreFlags(),
) -> int:
    """Store Markdown or text files, each as a memory. Can be interrupted and repeated: it skips stored files.

    A folder stands for all its .md, .markdown and .txt files that are not hidden.
    Title, tags and date come from the front matter. Without it, the title is
    the first heading of a Markdown file, or the file name. The metadata keeps
    the path as `source`: relative to the repository or, without one, beginning
    with the name of the folder. --sync recognizes a file by this path, among the
    memories of the same session, kind, agent, iteration and task. A deleted text
    stays gone, unless you name the file itself, without --sync.

    Exit code 0: every file is stored, 1: some are not.
    """
    address = creatable(here.place)
    sync = sync or watch
    _require_fitting(paths, keep_replaced=keep_replaced, supersedes=bool(facts.supersedes), is_sync=sync)
    if session is None:
        session = _default_session(kind, paths)
    fields = facts.fields(session)
    new_files = [path for path in files_of(address) if not path.exists()]
    with resumable(), here.store(address) as store:
        ingestion = Ingestion(store, kind, fields, keep_replaced=keep_replaced)
        outcomes, outdated = (ingestion.synced(paths), 0) if sync else ingestion.added(paths)
        output = IngestOutput(session, SYNCED if sync else ADDED, as_json=here.as_json)
        missing = store.get_memory_stats().without_vectors
        output.say(outcomes, missing, ingestion.left_out)
        if not here.as_json:
            _say_more(how_to_complete(store, missing) if missing else "", new_files, outdated)
        if watch:
            output.follow(ingestion, paths)
    return 1 if any(outcome.state == "failed" for outcome in outcomes) else 0


def _require_fitting(paths: Sequence[str], *, keep_replaced: bool, supersedes: bool, is_sync: bool) -> None:
    """Raise ConfigurationError if no file is named, or one that is not recognized again, and for conflicting flags."""
    if not paths:
        raise ConfigurationError("Specify what to store: files, folders, patterns, or - for standard input.")
    if is_sync and STANDARD_INPUT in paths:
        raise ConfigurationError("Standard input has no path by which --sync could recognize it: name a file.")

    if keep_replaced and not is_sync:
        raise ConfigurationError("--keep-replaced is for --sync and --watch: without them nothing is replaced.")
    if supersedes and is_sync:
        raise ConfigurationError("--supersedes is for files that are stored once: leave out --sync and --watch.")


def _say_more(advice: str, new_files: Sequence[Path], outdated: int) -> None:
    """Print what to do about missing vectors, which files were created, and how many earlier texts are still stored."""
    if advice:
        console().print(Text(advice, style="yellow"))
    for path in new_files:
        if path.exists():
            say(f"Created {path}.")
    if outdated:
        say(f"{counted(outdated, 'file')} had an earlier text, which is still stored: --sync replaces it.")


def _default_session(kind: MemoryKind, paths: Sequence[str]) -> str | None:
    """Return the session that the paths name, or None for a kind that has no sessions."""
    if not TRAITS[kind].session_scoped:
        return None
    if session := session_of(paths):
        return session
    raise ConfigurationError(f"Memories of kind {kind} belong to a session: add --session with its name.")


class IngestOutput:
    """Prints the outcomes for the files. `states`: those that are counted."""

    def __init__(self, session: str | None, states: tuple[State, ...], *, as_json: bool) -> None:
        self._session = session
        self._states = states
        self._as_json = as_json

    def say(self, outcomes: Sequence[Outcome], missing: int, left_out: Sequence[LeftOut] = ()) -> None:
        """Print the outcomes, and what was skipped. `missing`: the number of memories without vectors."""
        counts: Counter[State] = Counter(outcome.state for outcome in outcomes)
        if self._as_json:
            numbers = {state: counts[state] for state in self._states}
            files = [outcome._asdict() for outcome in outcomes]
            facts = {"session_id": self._session, "without_vectors": missing, "files": files}
            skipped = [each._asdict() for each in left_out]
            print_json({"success": not counts["failed"], **numbers, **facts, "left_out": skipped})
            return
        out = console()
        changed = [outcome for outcome in outcomes if outcome.state in {"updated", "removed"}]
        _print_some([f"{outcome.state.capitalize()}: {one_line(outcome.file)}" for outcome in changed])
        failed = [outcome for outcome in outcomes if outcome.state == "failed"]
        _print_some([f"Not stored: {one_line(outcome.file)}: {outcome.reason}" for outcome in failed], style="red")
        _print_some([f"Left out: {one_line(each.file)}: {each.reason}." for each in left_out])
        place = f" in session {one_line(self._session)}" if self._session else ""
        told = [state for state in self._states[1:] if counts[state] or state not in SELDOM[self._states]]
        others = "; ".join(f"{counts[state]:,} {WORDS.get(state, state)}" for state in told)
        out.print(Text.assemble((f"Stored {counted(counts['stored'], 'file')}{place}", "bold"), f"; {others}."))
        if counts["deleted_earlier"]:
            out.print("To store such a file again, name the file itself, without --sync.")

    def follow(self, ingestion: Ingestion, paths: Sequence[str]) -> None:
        """Sync the memories with the files, and print changes, until it is interrupted."""
        if not self._as_json:
            say("Watching for changes: press Ctrl-C to stop.")
        with suppress(KeyboardInterrupt):  # at any moment: each memory is replaced in one transaction
            for _ in changes_in(paths):
                try:
                    outcomes = ingestion.synced(paths)
                except VectorMemoryError as error:  # the next change may help
                    sys.stderr.write(f"vector-memory: {printable(str(error))}\n")
                    continue
                if any(outcome.state not in {"unchanged", *SELDOM[SYNCED]} for outcome in outcomes):
                    self.say(outcomes, 0)


def _print_some(lines: Sequence[str], style: str = "") -> None:
    out = console()
    for line in lines[:LINES_SHOWN]:
        out.print(Text(line, style=style))
    if len(lines) > LINES_SHOWN:
        out.print(Text(f"and {len(lines) - LINES_SHOWN:,} more", style=style))
