"""The commands that keep a memory well: its health, its copies, its vectors."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vector_memory.cli.flags import AsJson, MemoryId, PlaceFlags, SettingsFlags, existing
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import print_json, progress, resumable, say
from vector_memory.settings import Place, Settings, full_path


def delete(memory_id: MemoryId, /, *, as_json: AsJson = False, place: PlaceFlags = Place()) -> None:
    """Delete a memory with everything made from it. Deleted means gone: there is no way back but a backup."""
    from vector_memory.store import SessionMemoryStore

    with SessionMemoryStore(existing(place)) as store:
        result = store.delete_memory(memory_id)
    _report(result.model_dump(), result.message, as_json=as_json)


def backfill(*, as_json: AsJson = False, place: PlaceFlags = Place(), settings: SettingsFlags = Settings()) -> None:
    """Make the vectors that are missing, of what was stored without a model. Can be stopped and repeated."""
    set_up_logging(settings.log_level, settings.log_file, [place.file()])
    path = existing(place)
    from vector_memory.store import SessionMemoryStore

    with resumable(), SessionMemoryStore(path, settings) as store, progress("Memories") as update:
        result = store.backfill_embeddings(update)
    _report(result.model_dump(), result.message, as_json=as_json)


def reembed(*, as_json: AsJson = False, place: PlaceFlags = Place(), settings: SettingsFlags = Settings()) -> None:
    """Make all vectors anew with another model, the configured one. Can be stopped and repeated.

    Servers that run the model so far go on searching and storing. Start them anew with the new model when this is done.
    """
    set_up_logging(settings.log_level, settings.log_file, [place.file()])
    path = existing(place)
    from vector_memory.store import SessionMemoryStore

    with resumable(), SessionMemoryStore(path, settings) as store, progress("Memories") as update:
        result = store.reembed(update)
    _report({"success": True, **result._asdict()}, result.message, as_json=as_json)


def doctor(
    *,
    as_json: AsJson = False,
    fix: Annotated[
        bool, Parameter(help="Make again what the text allows: vectors, keywords, permissions.", negative=())
    ] = False,
    place: PlaceFlags = Place(),
    settings: SettingsFlags = Settings(),
) -> int:
    """Say whether this installation and this memory are healthy. Exit code 0: healthy, 1: not.

    Without --fix nothing is changed, and servers may go on working.
    """
    set_up_logging("ERROR", settings.log_file, [place.file()])
    from vector_memory.cli.doctor import run_doctor

    return 0 if run_doctor(place.file(), settings, as_json=as_json, fix=fix) else 1


def backup(
    target: Annotated[Path, Parameter(help="File to make.")],
    /,
    *,
    overwrite: Annotated[bool, Parameter(help="Replace the file if it is there.", negative=())] = False,
    as_json: AsJson = False,
    place: PlaceFlags = Place(),
) -> None:
    """Copy the memory, as it is at this moment, to a file. Servers may go on writing."""
    from vector_memory.maintenance.backup import back_up

    target = full_path(target)
    with progress("Copying") as update:
        copied = back_up(place.file(), target, overwrite=overwrite, on_progress=update)
    message = f"Copied {copied.memories:,} memories ({copied.size / 1e6:,.1f} MB) to {target}"
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(target)}
    _report(body, message, as_json=as_json)


def restore(
    source: Annotated[Path, Parameter(help="File that backup has made.")],
    /,
    *,
    overwrite: Annotated[
        bool, Parameter(help="Replace the memory that is there; it is kept in a file beside it.", negative=())
    ] = False,
    as_json: AsJson = False,
    place: PlaceFlags = Place(),
) -> None:
    """Put a backup in the memory's place. No server may use the memory meanwhile."""
    from vector_memory.maintenance.backup import restore

    path = place.file()
    with progress("Checking and copying") as update:
        copied = restore(full_path(source), path, overwrite=overwrite, on_progress=update)
    message = f"Restored {copied.memories:,} memories ({copied.size / 1e6:,.1f} MB) to {path}"
    if copied.kept is not None:
        message += f"\nWhat was there before is kept in {copied.kept}"
    kept = None if copied.kept is None else str(copied.kept)
    body = {"success": True, "memories": copied.memories, "bytes": copied.size, "file": str(path), "kept": kept}
    _report(body, message, as_json=as_json)


def fetch_model(*, as_json: AsJson = False) -> None:
    """Download the embedding model and the token table, about 90 MB, into the caches where the server looks."""
    from vector_memory.embedding.fetch import fetch_model

    folder = fetch_model((lambda _line: None) if as_json else say)
    _report({"success": True, "folder": str(folder)}, f"The model is in {folder}", as_json=as_json)


def _report(body: dict[str, Any], message: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(body)
    else:
        say(message or "Done.")
