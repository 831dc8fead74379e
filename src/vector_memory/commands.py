"""The commands of the command line. What takes long to import is imported by the command that needs it."""

import importlib.metadata
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from vector_memory.arguments import fill_from_environment
from vector_memory.errors import ConfigurationError
from vector_memory.logging_setup import set_up_logging
from vector_memory.settings import Place, ServerPlace, Settings

PlaceFlags = Annotated[Place, Parameter(name="*")]
ServerPlaceFlags = Annotated[ServerPlace, Parameter(name="*")]
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
def serve(*, place: ServerPlaceFlags = ServerPlace(), settings: SettingsFlags = Settings()) -> None:
    """Answer an MCP client over standard input and output."""
    set_up_logging(settings.log_level, settings.log_file)
    if sys.stdin.isatty():
        sys.stderr.write("Waiting for an MCP client on standard input; to look around, run `vector-memory demo`.\n")
    from vector_memory.server import run_server

    run_server(place.file(), settings, place.export_dir or ())


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
    path = place.file()
    if not path.is_file():
        raise ConfigurationError(f"There is no memory at {path}: name its file with --database-path.")
    from rich.progress import Progress

    from vector_memory.session_memory_store import SessionMemoryStore

    quiet = not sys.stdout.isatty()
    with SessionMemoryStore(path, settings) as store, Progress(transient=True, disable=quiet) as progress:
        bar = progress.add_task("Memories")
        result = store.backfill_embeddings(lambda done, total: progress.update(bar, completed=done, total=total))
    _say(result.message or "")


@app.command
def fetch_model() -> None:
    """Download the embedding model and the token table, about 90 MB, into the caches where the server looks."""
    from vector_memory.embedding.fetch import fetch_model

    folder = fetch_model(_say)
    _say(f"The model is in {folder}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
