"""The commands of the command line. What takes long to import is imported by the command that needs it."""

import gc
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from vector_memory.arguments import fill_from_environment
from vector_memory.errors import ConfigurationError
from vector_memory.logging_setup import set_up_logging
from vector_memory.settings import Offer, Place, ServerPlace, Settings, full_path

PlaceFlags = Annotated[Place, Parameter(name="*")]
ServerPlaceFlags = Annotated[ServerPlace, Parameter(name="*")]
OfferFlags = Annotated[Offer, Parameter(name="*")]
SettingsFlags = Annotated[Settings, Parameter(name="*")]

VARIABLES_HELP = (
    "Every setting is also an environment variable: --default-chunk-size is DEFAULT_CHUNK_SIZE, and --database-path "
    "and --working-dir are VECTOR_MEMORY_DATABASE_PATH and VECTOR_MEMORY_WORKING_DIR. A flag wins."
)

app = App(
    name="vector-memory",
    version=lambda: importlib.metadata.version("vector-memory"),
    config=fill_from_environment,
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable=()),
)


@app.default
@app.command(help_epilogue=VARIABLES_HELP)
def serve(
    *,
    place: ServerPlaceFlags = ServerPlace(),
    offer: OfferFlags = Offer(),
    settings: SettingsFlags = Settings(),
) -> None:
    """Answer an MCP client over standard input and output."""
    set_up_logging(settings.log_level, settings.log_file)
    if sys.stdin.isatty():
        sys.stderr.write("Waiting for an MCP client on standard input; to look around, run `vector-memory demo`.\n")
    gc.disable()  # what is imported stays: looking for garbage in it takes a tenth of the start
    from vector_memory.server import run_server

    gc.freeze()
    gc.enable()
    run_server(place.file(), settings, place.export_dir or (), offer)


@app.command
def demo(
    folder: Annotated[Path | None, Parameter(help="Folder with Markdown files; default: this project's docs.")] = None,
    /,
    *,
    question: Annotated[
        list[str] | None, Parameter(help="Ask this instead; may be repeated. Asked at every grain.")
    ] = None,
    limit: Annotated[int, Parameter(help="Store at most so many files.", validator=Number(gte=1))] = 100,
    database_path: Annotated[
        Path | None, Parameter(help="Keep the memory in this file; default: a temporary one.")
    ] = None,
) -> None:
    """Store a folder of Markdown files through the real server, and ask questions about it."""
    from vector_memory.demo import run_demo

    run_demo(folder, questions=question or [], limit=limit, database=database_path)


@app.command(help_epilogue=VARIABLES_HELP)
def backfill(*, place: PlaceFlags = Place(), settings: SettingsFlags = Settings()) -> None:
    """Make the vectors that are missing, of what was stored without a model. Can be stopped and repeated."""
    set_up_logging(settings.log_level, settings.log_file)
    path = _existing(place)
    from vector_memory.session_memory_store import SessionMemoryStore

    with _resumable(), SessionMemoryStore(path, settings) as store, _progress("Memories") as update:
        result = store.backfill_embeddings(update)
    _say(result.message or "")


@app.command(help_epilogue=VARIABLES_HELP)
def reembed(*, place: PlaceFlags = Place(), settings: SettingsFlags = Settings()) -> None:
    """Make all vectors anew with another model, the configured one. Can be stopped and repeated.

    Servers that run the model so far go on searching and storing. Start them anew with the new model when this is done.
    """
    set_up_logging(settings.log_level, settings.log_file)
    path = _existing(place)
    from vector_memory.session_memory_store import SessionMemoryStore

    with _resumable(), SessionMemoryStore(path, settings) as store, _progress("Memories") as update:
        result = store.reembed(update)
    _say(result.message)


@app.command(help_epilogue=VARIABLES_HELP)
def doctor(
    *,
    json: Annotated[bool, Parameter(help="Print one JSON object.", negative=())] = False,
    fix: Annotated[
        bool, Parameter(help="Make again what the text allows: vectors, keywords, permissions.", negative=())
    ] = False,
    place: PlaceFlags = Place(),
    settings: SettingsFlags = Settings(),
) -> None:
    """Say whether this installation and this memory are healthy. Exit code 0: healthy, 1: not.

    Without --fix nothing is changed, and servers may go on working.
    """
    set_up_logging("ERROR", settings.log_file)
    from vector_memory.doctor import run_doctor

    sys.exit(0 if run_doctor(place.file(), settings, as_json=json, fix=fix) else 1)


@app.command
def backup(
    target: Annotated[Path, Parameter(help="File to make.")],
    /,
    *,
    overwrite: Annotated[bool, Parameter(help="Replace the file if it is there.", negative=())] = False,
    place: PlaceFlags = Place(),
) -> None:
    """Copy the memory, as it is at this moment, to a file. Servers may go on writing."""
    from vector_memory.backups import back_up

    target = full_path(target)
    with _progress("Copying") as update:
        copied = back_up(place.file(), target, overwrite=overwrite, on_progress=update)
    _say(f"Copied {copied.memories:,} memories ({copied.size / 1e6:,.1f} MB) to {target}")


@app.command
def restore(
    source: Annotated[Path, Parameter(help="File that backup has made.")],
    /,
    *,
    overwrite: Annotated[
        bool, Parameter(help="Replace the memory that is there; it is kept in a file beside it.", negative=())
    ] = False,
    place: PlaceFlags = Place(),
) -> None:
    """Put a backup in the memory's place. No server may use the memory meanwhile."""
    from vector_memory.backups import restore

    path = place.file()
    with _progress("Checking and copying") as update:
        copied = restore(full_path(source), path, overwrite=overwrite, on_progress=update)
    _say(f"Restored {copied.memories:,} memories ({copied.size / 1e6:,.1f} MB) to {path}")
    if copied.kept is not None:
        _say(f"What was there before is kept in {copied.kept}")


@app.command
def fetch_model() -> None:
    """Download the embedding model and the token table, about 90 MB, into the caches where the server looks."""
    from vector_memory.embedding.fetch import fetch_model

    folder = fetch_model(_say)
    _say(f"The model is in {folder}")


def _existing(place: Place) -> Path:
    """Return the memory's file. Raises ConfigurationError if there is none."""
    path = place.file()
    if not path.is_file():
        raise ConfigurationError(f"There is no memory at {path}: name its file with --database-path.")
    return path


@contextmanager
def _resumable() -> Iterator[None]:
    """Say to who interrupts the block that what was done is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("vector-memory: interrupted; run the same command again to go on.\n")
        raise


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; yields what to call with how much is done, and of how much."""
    from rich.progress import Progress

    with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task(what)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
