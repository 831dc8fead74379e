"""The command that writes an HTML page of a session."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.commands.show import SessionArgument, opened
from vector_memory.cli.flags import AsJson, LocationFlags, existing
from vector_memory.cli.terminal import print_json, progress, say
from vector_memory.domain.text import counted
from vector_memory.maintenance.report import SessionReports
from vector_memory.maintenance.transfer import new_file
from vector_memory.settings import DatabaseLocation, full_path


def report(
    session: SessionArgument,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o", help="File to write, for example session.html.")],
    overwrite: Annotated[bool, Parameter(help="Replace an existing file.", negative=(), show_default=False)] = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """Write an HTML page of a session: who stored what and when, a map by meaning, and the searchable texts.

    The page needs no server and no network. It contains stored texts: share it only with people who may read them.
    """
    path, target = existing(place), full_path(output)
    with (
        opened(place) as storage,
        progress("Memories") as update,
        new_file(target, overwrite=overwrite, memory=path) as stream,
    ):
        page = SessionReports(storage).page(session, update)
        size = stream.write(page.html.encode())
    counts = {"memories": page.memories, "shown": page.shown, "texts": page.texts}
    if as_json:
        print_json({"success": True, **counts, "file": str(target), "bytes": size})
        return
    say(f"Wrote {counted(page.shown, 'memory', 'memories')} ({size / 1e6:,.1f} MB) to {target}")
    if page.texts < page.memories:
        shown = f"The page shows the newest {page.shown:,} of {page.memories:,} memories"
        say(f"{shown}, and the texts of the newest {page.texts:,}.")
