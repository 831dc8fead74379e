"""The maintenance commands: deleting, vectors, models, backups, database servers, and completion in a shell."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from vector_memory.answers.models import MemoryEntry
from vector_memory.answers.overview import HeldLine, PolicyResult
from vector_memory.cli.commands import app
from vector_memory.cli.flags import (
    DEFAULTS,
    MemoryFlags,
    MemoryId,
    ModelFlags,
    ModelSettingsFlags,
    OutputFlags,
    Overwrite,
    RetentionFlags,
    Switch,
    creatable,
    given_path,
    require_session,
)
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import agreed, console, moment, one_line, print_json, progress, resumable, say
from vector_memory.domain import STORED, Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import parse_id
from vector_memory.errors import ConfigurationError, NotFoundError
from vector_memory.reading.overview import Overview
from vector_memory.writing.deletion import Deletion, kept_message

if TYPE_CHECKING:
    from vector_memory.embedding.known import KnownModel
    from vector_memory.settings import Settings


DryRun = Annotated[bool, Switch(help="Only show what would be deleted.")]
Yes = Annotated[bool, Switch(alias="-y", help="Do not ask.")]


def delete(
    *memory_ids: MemoryId,
    session: Annotated[str | None, Parameter(help="Delete all memories of this session.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    here: MemoryFlags = MemoryFlags(),
) -> int:
    """Permanently delete memories and everything derived from them. Only a backup can bring them back.

    Asks for confirmation; without a terminal, --yes is required.
    """
    if bool(memory_ids) == (session is not None):
        raise ConfigurationError("Name what to delete: ids of memories, or a session with --session.")
    with here.opened(read_only=dry_run) as storage:
        if session is not None:
            require_session(storage, session)
            with storage.read() as reader:
                numbers = reader.memories.ids(Scope(session_id=session, as_of=STORED))
            what = f"{_memories(len(numbers))} of session {one_line(session)}"
        else:
            entries = [Overview(storage).memory(number) for number in dict.fromkeys(memory_ids)]
            numbers = [entry.id for entry in entries]
            what = _named(entries[0]) if len(entries) == 1 else _memories(len(entries))
        if not dry_run and not _may_delete(what, yes=yes):
            return 1
        if not dry_run:
            Deletion(storage).delete_all(numbers)
    message = f"{'Would delete' if dry_run else 'Deleted'} {what}."
    single = numbers[0] if len(numbers) == 1 else None
    body = {"success": True, "dry_run": dry_run, "memory_id": single, "memory_ids": numbers, "message": message}
    here.tell(body, message)
    return 0


def quarantine(
    *memory_ids: MemoryId,
    session: Annotated[str | None, Parameter(help="All memories of this session.")] = None,
    agent: Annotated[str | None, Parameter(help="All memories of this agent.")] = None,
    source: Annotated[str | None, Parameter(help="All that came from this address, or from below it.")] = None,
    token: Annotated[str | None, Parameter(help="All that were stored with this token.")] = None,
    dry_run: Annotated[bool, Switch(help="Only show what would be taken out.")] = False,
    yes: Yes = False,
    here: MemoryFlags = MemoryFlags(),
) -> int:
    """Take memories out of use, with all that were derived from them, until `review` releases or deletes them.

    Derived are memories that name one as a source, and observations on a report. No process finds them any more.
    """
    from vector_memory.writing.holding import Holding

    named = {"session": session, "agent": agent, "source": source, "token": token}
    if not memory_ids and not any(named.values()):
        raise ConfigurationError("Name what to take out: ids of memories, --session, --agent, --source or --token.")
    with here.opened(read_only=dry_run) as storage:
        holding = Holding(storage)
        numbers = holding.touched([parse_id("memory_id", one) for one in memory_ids], **named)
        why = ", ".join(f"{name} {one_line(value)}" for name, value in named.items() if value) or "by id"
        what = _memories(len(numbers))
        if numbers and not dry_run:
            if not (yes or agreed(f"Take {what} out of use?", "Nothing was changed.")):
                return 1
            holding.quarantine(numbers, why)
    message = f"{'Would take' if dry_run else 'Took'} {what} out of use: {', '.join(map(str, numbers)) or 'none'}."
    here.tell({"success": True, "dry_run": dry_run, "memory_ids": numbers, "message": message}, message)
    return 0


def undo(
    *memory_ids: MemoryId,
    session: Annotated[str | None, Parameter(help="All deleted memories of this session.")] = None,
    agent: Annotated[str | None, Parameter(help="All deleted memories that this agent stored or deleted.")] = None,
    erase: Annotated[bool, Switch(help="Erase them at once instead.")] = False,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """List what agents deleted, or bring it back. It is erased after --undo-hours of the server that deleted it.

    What a person deletes, with `delete` or on the page, is erased at once.
    """
    from vector_memory.reading.review import held_lines
    from vector_memory.writing.holding import Holding

    selects = bool(memory_ids or session or agent)
    with here.opened(read_only=not selects) as storage:
        holding = Holding(storage)
        found = {one.memory.id: one for one in holding.deleted(session, agent)}
        numbers = [parse_id("memory_id", one) for one in memory_ids] or list(found)
        if missing := set(numbers) - found.keys():
            raise NotFoundError(f"Memory {min(missing)} cannot be brought back: `vector-memory undo` lists what can.")
        done = (holding.reject if erase else holding.accept)(numbers) if selects else []
    if not selects:
        lines = held_lines(found.values())
        said = "\n".join(map(_deleted, lines)) or "No agent deleted anything that can be brought back."
        here.tell({"success": True, "deleted": [one.model_dump() for one in lines]}, said)
        return
    message = f"{'Erased' if erase else 'Brought back'} {_memories(len(done))}."
    if len(done) < len(numbers):
        message += f" The texts of {_memories(len(numbers) - len(done))} were stored again."
    here.tell({"success": True, "memory_ids": done, "message": message}, message)


def _deleted(line: HeldLine) -> str:
    until, said = moment(line.held_until or ""), one_line(line.title or line.content)
    return f"{line.id}  deleted by {one_line(line.held_for)}, until {until} (UTC): {said}"


def cleanup(
    *,
    days: Annotated[
        int | None, Parameter(help="Delete memories that were stored more than this many days ago; default: 90.")
    ] = None,
    policy: Annotated[bool, Switch(help="Delete memories older than --retention permits.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    here: RetentionFlags = RetentionFlags(),
) -> int:
    """Permanently delete old memories of all kinds, except tagged and pinned ones. Erases expired memories too.

    Asks for confirmation; without a terminal, --yes is required.
    """
    if policy and days is not None:
        raise ConfigurationError("--policy has its own numbers of days: omit --days, or --policy.")
    days = 90 if days is None else days
    with here.opened(read_only=dry_run) as storage:
        deletion = Deletion(storage)
        clean_up = partial(deletion.apply, here.settings.retention) if policy else partial(deletion.clean_up, days)
        found = clean_up(dry_run=True)
        age = "policies permit" if policy else counted(days, "day")
        what = f"{_memories(found.memories_deleted)} older than {age}"
        if not dry_run and found.memories_deleted:
            if not _may_delete(what, yes=yes):
                return 1
            found = clean_up(dry_run=False)
        elif not dry_run:
            deletion.erase_expired()
    lines = [f"{'Would delete' if dry_run else 'Deleted'} {what}."]
    if found.memories_kept:
        lines.append(kept_message(found.memories_kept))
    if isinstance(found, PolicyResult):
        lines += [f"  {rule}: {_memories(number)}" for rule, number in found.by_rule.items()]
    here.tell(found.model_dump() | {"message": lines[0]}, "\n".join(lines))
    return 0


def _memories(number: int) -> str:
    return counted(number, "memory", "memories")


def _named(entry: MemoryEntry) -> str:
    title = f', "{one_line(entry.title)}",' if entry.title else ""
    return f"{entry.memory_type} {entry.id}{title} with all its chunks"


def _may_delete(what: str, *, yes: bool) -> bool:
    """Ask whether to delete. Raises ConfigurationError without a terminal."""
    return yes or agreed(f"Delete {what}? This cannot be undone.", "Nothing was deleted.")


def backfill(*, here: ModelFlags = ModelFlags()) -> None:
    """Compute missing vectors, for memories stored without a model. Can be interrupted and repeated."""
    level = here.settings.log_level
    with resumable(), here.store(level=level) as store, progress("Memories") as update:
        result = store.backfill_embeddings(update)
    here.tell(result.model_dump(), result.message or "Done.")


def reembed(*, here: ModelFlags = ModelFlags()) -> None:
    """Recompute all vectors with the configured model. Can be interrupted and repeated.

    Servers with the old model can search and store in the meantime. Restart them with the new model afterwards.
    """
    level = here.settings.log_level
    with resumable(), here.store(level=level) as store, progress("Memories") as update:
        result = store.reembed(update)
    here.tell({"success": True, **result._asdict()}, result.message)


def backup(
    target: Annotated[Path, Parameter(help="File to write.")],
    /,
    *,
    overwrite: Overwrite = False,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """Copy the current state of the memory to a file. Servers can keep writing.

    --overwrite replaces ordinary files, and earlier backups that no program has opened since.

    It never replaces a memory or any other database.
    """
    from vector_memory.upkeep.backup import back_up, file_of

    target = given_path(target)
    path = file_of(here.place.address())
    with progress("Copying") as update:
        copied = back_up(path, target, overwrite=overwrite, on_progress=update)
    message = f"Copied {counted(copied.memories, 'memory', 'memories')} ({copied.size / 1e6:,.1f} MB) to {target}"
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(target)}
    here.tell(body, message)


def restore(
    source: Annotated[Path, Parameter(help="File written by backup.")],
    /,
    *,
    overwrite: Annotated[bool, Switch(help="Replace an existing memory, which is kept in a file next to it.")] = False,
    here: MemoryFlags = MemoryFlags(),
) -> None:
    """Replace the memory with a backup. Stop all servers that use the memory first."""
    from vector_memory.upkeep.backup import file_of, restore_memory

    path = file_of(creatable(here.place))
    with progress("Checking and copying") as update:
        copied = restore_memory(given_path(source), path, overwrite=overwrite, on_progress=update)
    message = f"Restored {counted(copied.memories, 'memory', 'memories')} ({copied.size / 1e6:,.1f} MB) to {path}"
    if copied.kept is not None:
        message += f"\nThe previous memory is kept in {copied.kept}"
    kept = None if copied.kept is None else str(copied.kept)
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(path), "kept": kept}
    here.tell(body, message)


def fetch_model(*, here: OutputFlags = OutputFlags()) -> None:
    """Download the embedding model and the token table (about 90 MB) into the caches that the server uses."""
    set_up_logging("ERROR", None)
    from vector_memory.embedding.weights import download_model

    folder = download_model((lambda _line: None) if here.as_json else say)
    here.tell({"success": True, "folder": str(folder)}, f"The model is in {folder}")


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")], /) -> None:
    """Print a completion script for a shell.

    bash: add `eval "$(vector-memory completion bash)"` to ~/.bashrc.

    zsh: save it as _vector-memory in a folder of $fpath.

    fish: save it as ~/.config/fish/completions/vector-memory.fish.
    """
    say(app.generate_completion(prog_name="vector-memory", shell=shell))


HOW_TO_USE_MODEL = (
    "Correct the name, begin the path of a folder with /, ./, ../ or ~, or install the extra sentence-transformers, "
    "which runs models of other families."
)


def models(*, output: OutputFlags = OutputFlags(), settings: ModelSettingsFlags = DEFAULTS) -> None:
    """List the embedding models: the known ones, which of them are installed, and the one in use.

    To switch, set --embedding-model to another one and run `vector-memory reembed`.
    """
    from vector_memory.embedding.known import KNOWN, by_name

    chosen = by_name(settings.embedding_model)
    rows = [_row_of_known(model, settings, in_use=model is chosen) for model in KNOWN.values()]
    if chosen is None:
        rows.append(_row_of_own(settings))
    if output.as_json:
        print_json({"success": True, "models": rows})
    else:
        _print_models(rows)


def _row_of_known(model: "KnownModel", settings: "Settings", *, in_use: bool) -> dict[str, Any]:
    from vector_memory.embedding.weights import find_weights, how_to_install, source_of
    from vector_memory.errors import EmbeddingUnavailableError

    folder = settings.embedding_model_path if in_use else None
    advice = how_to_install(model)
    try:
        place = find_weights(folder, model).source if folder else source_of(model)
    except EmbeddingUnavailableError as error:
        place, advice = None, str(error)
    return {
        "name": model.description.name,
        "in_use": in_use,
        "installed_in": place,
        "languages": list(model.description.languages),
        "about": model.about,
        "how_to_install": advice,
    }


def _row_of_own(settings: "Settings") -> dict[str, Any]:
    """Return the row of an unknown model: in a folder, of this server, or of sentence-transformers."""
    from vector_memory.embedding.model import TOY_MODEL
    from vector_memory.embedding.weights import find_model

    own = find_model(settings.embedding_model, settings.embedding_model_path)
    place = "sentence-transformers" if importlib.util.find_spec("sentence_transformers") else None
    if own is not None:
        place = own.source
    elif settings.embedding_model == TOY_MODEL:
        place = "this server"
    return {
        "name": settings.embedding_model if own is None else own.description.name,
        "in_use": True,
        "installed_in": place,
        "languages": [] if own is None else list(own.description.languages),
        "about": "not one of the known models",
        "how_to_install": "" if place else HOW_TO_USE_MODEL,
    }


def _print_models(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("", "model", "installed", "for"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "model")
    for row in rows:
        place = row["installed_in"] or "no"
        table.add_row("*" if row["in_use"] else "", Text(row["name"]), Text(place), Text(row["about"]))
    console().print(table)
    for row in rows:
        if row["in_use"] and row["installed_in"] is None:
            console().print(f"{row['name']} is in use and not installed. {row['how_to_install']}")
