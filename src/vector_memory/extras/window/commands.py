"""The command that writes an HTML page of a session."""

import hashlib
import re
import webbrowser
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vector_memory.cli import flags
from vector_memory.cli.terminal import progress
from vector_memory.domain import ANY, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError, NotFoundError
from vector_memory.extras.window.page import page_html
from vector_memory.extras.window.session_report import session_data
from vector_memory.settings import DatabaseLocation
from vector_memory.storage.base import Storage
from vector_memory.upkeep.export_lines import new_file

UNSAFE = re.compile(r"[^\w.-]+")
LONGEST_NAME = 80
MOST_SESSIONS = 10_000


def report(
    session: Annotated[str | None, Parameter(help="Id of a session, as listed by `vector-memory sessions`.")] = None,
    /,
    *,
    all_sessions: Annotated[bool, flags.Switch(name="--all", help="Write a page for each session.")] = False,
    output: Annotated[
        Path | None,
        Parameter(alias="-o", help="File to write; with --all a folder. Default: SESSION.html in the current folder."),
    ] = None,
    show: Annotated[bool, flags.Switch(name="--open", help="Open the page in a browser.")] = False,
    overwrite: flags.Overwrite = False,
    here: flags.MemoryFlags = flags.MemoryFlags(),
) -> None:
    """Write an HTML page of a session: who stored what and when, a map by meaning, and the searchable texts.

    The page needs no server and no network. It contains stored texts: share it only with people who may read them.
    """
    if (session is None) != all_sessions:
        raise ConfigurationError("Name a session, or use --all: `vector-memory sessions` lists the sessions.")
    with here.opened() as storage:
        if session is not None:
            flags.require_session(storage, session)
            targets = {session: flags.given_path(output or Path(file_name(session)))}
        else:
            folder = flags.given_path(output or Path())
            targets = _pages_of(storage, folder)
        pages = [_write_page(storage, one, at, here.place, overwrite=overwrite) for one, at in targets.items()]
    body = {"success": True, **(pages[0] if session is not None else {"pages": pages})}
    here.tell(body, "\n".join(map(_sentences_about_page, pages)))
    if show:
        webbrowser.open(Path(pages[0]["file"]).as_uri())


def file_name(session: str) -> str:
    """Return the name of a session's page; two sessions never have the same."""
    kept = UNSAFE.sub("-", session).strip("-.")[:LONGEST_NAME]
    if kept == session:
        return f"{kept}.html"
    return f"{kept or 'session'}-{hashlib.sha256(session.encode()).hexdigest()[:8]}.html"


def _pages_of(storage: Storage, folder: Path) -> dict[str, Path]:
    with storage.read() as reader:
        names, _ = reader.sessions.find_names("session_id", "", Scope(as_of=ANY), MOST_SESSIONS)
    if not names:
        raise NotFoundError("There are no sessions: nothing was written.")
    folder.mkdir(parents=True, exist_ok=True)
    return {name: folder / file_name(name) for name in names}


def _write_page(
    storage: Storage, session: str, target: Path, place: DatabaseLocation, *, overwrite: bool
) -> dict[str, Any]:
    """Write a page, and return what --json says of it."""
    databases = flags.files_of(place.address())
    with progress("Memories") as update, new_file(target, overwrite=overwrite, databases=databases) as stream:
        data = session_data(storage, session, update)
        size = stream.write(page_html(data).encode())
    facts = {"memories": data["total"], "shown": len(data["memories"]), "texts": data["texts"]}
    return facts | {"file": str(target), "bytes": size}


def _sentences_about_page(page: dict[str, Any]) -> str:
    wrote = f"Wrote {counted(page['shown'], 'memory', 'memories')} ({page['bytes'] / 1e6:,.1f} MB) to {page['file']}"
    if page["texts"] == page["memories"]:
        return wrote
    shown = f"The page shows the newest {page['shown']:,} of {page['memories']:,} memories"
    return f"{wrote}\n{shown}, and the texts of the newest {page['texts']:,}."
