"""The maintenance commands: vectors, health, backups, the model, and completion in a shell."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.commands import app
from vector_memory.cli.flags import (
    DEFAULTS,
    AsJson,
    LocationFlags,
    ModelSettingsFlags,
    Overwrite,
    Switch,
    creatable,
    existing,
    file_of,
    files_of,
    given_path,
)
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import progress, resumable, say, tell
from vector_memory.domain.text import counted
from vector_memory.settings import DatabaseLocation


def backfill(
    *, as_json: AsJson = False, place: LocationFlags = DatabaseLocation(), settings: ModelSettingsFlags = DEFAULTS
) -> None:
    """Compute missing vectors, for memories stored without a model. Can be interrupted and repeated."""
    address = existing(place)
    set_up_logging(settings.log_level, settings.log_file, files_of(address))
    from vector_memory.store import SessionMemoryStore

    with resumable(), SessionMemoryStore(address, settings) as store, progress("Memories") as update:
        result = store.backfill_embeddings(update)
    tell(result.model_dump(), result.message or "Done.", as_json=as_json)


def reembed(
    *, as_json: AsJson = False, place: LocationFlags = DatabaseLocation(), settings: ModelSettingsFlags = DEFAULTS
) -> None:
    """Recompute all vectors with the configured model. Can be interrupted and repeated.

    Servers with the old model can search and store meanwhile. Restart them with the new model afterwards.
    """
    address = existing(place)
    set_up_logging(settings.log_level, settings.log_file, files_of(address))
    from vector_memory.store import SessionMemoryStore

    with resumable(), SessionMemoryStore(address, settings) as store, progress("Memories") as update:
        result = store.reembed(update)
    tell({"success": True, **result._asdict()}, result.message, as_json=as_json)


def backup(
    target: Annotated[Path, Parameter(help="File to write.")],
    /,
    *,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """Copy the current state of the memory to a file. Servers can keep writing.

    --overwrite replaces ordinary files, and copies by this command that no program has opened since.

    It never replaces a memory or any other database.
    """
    from vector_memory.maintenance.backup import back_up

    target = given_path(target)
    path = file_of(place.address())
    with progress("Copying") as update:
        copied = back_up(path, target, overwrite=overwrite, on_progress=update)
    message = f"Copied {counted(copied.memories, 'memory', 'memories')} ({copied.size / 1e6:,.1f} MB) to {target}"
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(target)}
    tell(body, message, as_json=as_json)


def restore(
    source: Annotated[Path, Parameter(help="File written by backup.")],
    /,
    *,
    overwrite: Annotated[
        bool,
        Switch(help="Replace an existing memory, which is kept in a file next to it."),
    ] = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """Replace the memory with a backup. No server may use the memory meanwhile."""
    from vector_memory.maintenance.backup import restore

    path = file_of(creatable(place))
    with progress("Checking and copying") as update:
        copied = restore(given_path(source), path, overwrite=overwrite, on_progress=update)
    message = f"Restored {counted(copied.memories, 'memory', 'memories')} ({copied.size / 1e6:,.1f} MB) to {path}"
    if copied.kept is not None:
        message += f"\nThe previous memory is kept in {copied.kept}"
    kept = None if copied.kept is None else str(copied.kept)
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(path), "kept": kept}
    tell(body, message, as_json=as_json)


def fetch_model(*, as_json: AsJson = False) -> None:
    """Download the embedding model and the token table (about 90 MB) into the caches that the server uses."""
    set_up_logging("ERROR", None)
    from vector_memory.embedding.weights import fetch_model

    folder = fetch_model((lambda _line: None) if as_json else say)
    tell({"success": True, "folder": str(folder)}, f"The model is in {folder}", as_json=as_json)


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")], /) -> None:
    """Print a completion script for a shell.

    bash: add `eval "$(vector-memory completion bash)"` to ~/.bashrc.

    zsh: save it as _vector-memory in a folder of $fpath.

    fish: save it as ~/.config/fish/completions/vector-memory.fish.
    """
    say(app.generate_completion(prog_name="vector-memory", shell=shell))
