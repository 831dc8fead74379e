"""The commands that start a server: for a client, for a person, or as a demo."""

import gc
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from vector_memory.cli.flags import (
    HiddenSettingsFlags,
    LocationFlags,
    SettingsFlags,
    Switch,
    creatable,
    existing,
    files_of,
    given_path,
    require_folder,
)
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.extras import extra
from vector_memory.server.early import early_client, key_of_offer
from vector_memory.settings import (
    EXPORT_FOLDER,
    DatabaseLocation,
    FileLocations,
    HttpOptions,
    ServerLocations,
    ServerOptions,
    Settings,
    Toolset,
)

ServerLocationFlags = Annotated[ServerLocations, Parameter(name="*")]
FileLocationFlags = Annotated[FileLocations, Parameter(name="*")]
HttpFlags = Annotated[HttpOptions, Parameter(name="*")]
ServerOptionFlags = Annotated[ServerOptions, Parameter(name="*")]


def serve(
    *,
    place: ServerLocationFlags = ServerLocations(),
    files: FileLocationFlags = FileLocations(),
    offer: ServerOptionFlags = ServerOptions(),
    http: HttpFlags = HttpOptions(),
    settings: SettingsFlags = Settings(),
) -> None:
    """Serve an MCP client over standard input and output, or with --http many over HTTP."""
    # The default folder is created: a memory in the client's project need not exist yet.
    address = place.address() if place.is_default() else creatable(place)
    set_up_logging(settings.log_level, settings.log_file, files_of(address))
    if Toolset.FILES in offer.chosen():
        files.index_folder()  # raises now, and not when the first file is read
    exports = place.export_dir or [place.folder() / EXPORT_FOLDER]
    if http.remote and http.token_file:
        from vector_memory.server.http.relay import run_relay

        run_relay(http.remote, http.token_file, offer, settings.redact)
    if http.http:
        from vector_memory.server.http.serving import run_http_server

        run_http_server(address, settings, exports, offer, http)
        return
    if sys.stdin.isatty():
        sys.stderr.write("Waiting for an MCP client on standard input. To try it out, run `vector-memory demo`.\n")
    early_client(key_of_offer(offer))  # it may be answered before the rest is imported
    gc.disable()  # until all is imported, which stays: collecting among it takes a tenth of the start time
    from vector_memory.server.app import run_server

    run_server(address, settings, exports, offer, files)


PORTS = Number(gte=0, lte=65_535)


def ui(
    *,
    port: Annotated[int, Parameter(help="Port of 127.0.0.1; 0: any free one.", validator=PORTS)] = 0,
    open_browser: Annotated[bool, Parameter(name="--open", negative="--no-open", help="Open it in a browser.")] = True,
    read_only: Annotated[bool, Switch(help="Show the memory without changing anything.")] = False,
    place: LocationFlags = DatabaseLocation(),
    files: FileLocationFlags = FileLocations(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Open a page over the live memory in a browser: what happened, the memories, and what a search finds.

    Only one browser on this machine can use it, through a link that works once.
    """
    address = existing(place) if read_only else creatable(place)
    set_up_logging("ERROR", settings.log_file, files_of(address))
    extra("page").run_ui(address, settings, files, port=port, opens=open_browser, read_only=read_only)


def demo(
    folder: Annotated[
        Path | None, Parameter(help="Folder with Markdown files; default: the documentation of vector-memory.")
    ] = None,
    /,
    *,
    question: Annotated[list[str] | None, Parameter(help="Question to ask, at every grain; repeatable.")] = None,
    limit: Annotated[int, Parameter(help="Maximum number of files to store.", validator=Number(gte=1))] = 100,
    database_path: Annotated[
        Path | None, Parameter(help="Keep the memory in this file; default: a temporary file.")
    ] = None,
) -> None:
    """Store a folder of Markdown files through the real server and ask questions about it."""
    from vector_memory.cli.demo import run_demo

    kept = given_path(database_path) if database_path else None
    if kept is not None:
        require_folder(kept.parent)
    run_demo(folder, questions=question or [], limit=limit, database=kept)
