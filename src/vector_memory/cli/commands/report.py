"""The command that makes a page of a session."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.commands.show import SessionArgument, opened
from vector_memory.cli.flags import AsJson, PlaceFlags, existing
from vector_memory.cli.terminal import counted, print_json, progress, say
from vector_memory.maintenance.report import SessionReports
from vector_memory.maintenance.transfer import new_file
from vector_memory.settings import Place, full_path


def report(
    session: SessionArgument,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o", help="File to make, for example session.html.")],
    overwrite: Annotated[bool, Parameter(help="Replace the file if it is there.", negative=())] = False,
    as_json: AsJson = False,
    place: PlaceFlags = Place(),
) -> None:
    """Make one HTML page of a session: who stored what and when, a map by meaning, and the texts, to be searched.

    It needs no server and no network. It holds what is stored: give it to nobody who may not read that.
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
        say(f"Of {page.memories:,} memories the newest {page.shown:,} are shown, the newest {page.texts:,} with text.")
