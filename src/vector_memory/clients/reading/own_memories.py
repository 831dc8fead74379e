"""Keeps a memory in step with what clients on this machine remember by themselves, in Markdown files of their own.

The files are only read. Each is a report of the session `own-memories` whose agent is the client, and whose metadata
says which file it is.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from vector_memory.clients.client import Client, OwnMemory
from vector_memory.clients.editing.json_file import content_of
from vector_memory.clients.reading.conversation import storable
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain import OWN_MEMORIES, CameFrom, MemoryKind, NewMemory, Scope, Way
from vector_memory.domain.text import counted, text_in
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import as_title
from vector_memory.errors import ConfigurationError, ValidationError, VectorMemoryError, where
from vector_memory.files.folder import MemoryFolder, file_status
from vector_memory.files.syncing import FileStatus, FileSync, Outcome
from vector_memory.files.watcher import SECONDS_TO_WATCH_AGAIN, follow
from vector_memory.reading.export import opened_parent
from vector_memory.settings import Redact
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Finding, Level
from vector_memory.writing.sync import Origin

logger = logging.getLogger(__name__)

SECONDS_TO_STOP = 0.05


class OwnMemories:
    """What the clients remember of a project and of all projects, as a part of a store.

    Several processes may follow the same files into one memory: whoever comes first stores a text.
    """

    def __init__(self, store: SessionMemoryStore, project: Path) -> None:
        self._store, self._project = store, project
        self._redacts = store.settings.redact is not Redact.OFF
        self._places: dict[str, tuple[str, Client, OwnMemory]] = {}
        self._seen: dict[str, FileStatus] = {}
        self._sync = FileSync(self._memory_of, self._seen.get)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="own-memories", daemon=True)

    def start_background_work(self) -> None:
        """Store what is there, and follow it, in the background."""
        self._thread.start()

    def unload_idle(self) -> None:
        """Do nothing: the store has the model."""

    def close(self) -> None:
        """Stop following. What has not been stored yet is stored at the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(SECONDS_TO_STOP)

    def sync(self) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of deleted files.

        Those of other projects stay, in a memory that several have in common.
        """
        self._places = {str(place.of / place.folder): (name, one, place) for name, one, place in self._found()}
        self._seen.clear()
        files = {}
        for root, (_, _, place) in self._places.items():
            for source, status in _scanned(place).items():
                if self._clean(source) == source:  # a name is stored, and searched for, as it is
                    self._seen[f"{root}/{source}"] = status
                    files[f"{root}/{source}"] = Origin(root, source)
        sync = self._store.sync(Scope(MemoryKind.REPORT, session_id=OWN_MEMORIES))
        gone = {one for one in sync.origins() if one.root in self._places or not Path(one.root).exists()}
        outcomes = self._sync.run(sync, files, gone - {*files.values()}, lambda *_: None)
        if changed := sum(one.state in ("stored", "updated", "removed") for one in outcomes):
            logger.info("Changed in what other clients remember: %s", counted(changed, "file"))
        return outcomes

    def _found(self) -> Iterator[tuple[str, Client, OwnMemory]]:
        for name, client in CLIENTS.items():
            with suppress(OSError):
                yield from ((name, client, place) for place in client.own_memories(self._project))

    def _memory_of(self, _file: str, origin: Origin) -> NewMemory:
        name, client, place = self._places[origin.root]
        data, status = MemoryFolder(Path(origin.root)).read(origin.source)
        about = {"project": str(self._project)} if place.project else {}
        return NewMemory.of(
            MemoryKind.REPORT,
            self._clean(text_in(data)),
            agent_id=name,
            session_id=OWN_MEMORIES,
            title=as_title(f"{client.title}'s own memory: {origin.source}"),
            tags=("own-memory",),
            metadata=origin._asdict() | about,
            created_at=status.changed_at,
            came_from=CameFrom(by=Way.FILE, client=name),
        )

    def _clean(self, text: str) -> str:
        return storable(text, redacts=self._redacts).text

    def _watched(self) -> list[Path]:
        """Return the folders to watch, and the files of those that hold much else."""
        places = [place for *_, place in self._found() if place.is_real()]
        return [place.of / place.folder / name for place in places for name in place.files or ("",)]

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.sync()
                watched = self._watched()
                for _ in follow(watched, _matters, self._stopping):
                    self.sync()
                    if self._watched() != watched:
                        break
            except Exception as error:  # of the system, or of a closed store; it must not end the server
                if not self._stopping.is_set():
                    reason = error if isinstance(error, VectorMemoryError) else where(error)
                    logger.warning("What other clients remember could not be followed: %s", reason)
                    self._stopping.wait(SECONDS_TO_WATCH_AGAIN)


def _scanned(place: OwnMemory) -> dict[str, FileStatus]:
    """Return the files by their paths in the folder. Links are left out, and what is too long."""
    folder = MemoryFolder(place.of / place.folder)
    if not place.is_real():
        return {}
    if not place.files:
        return folder.scan()
    found = {}
    with suppress(OSError), opened_parent(folder.path, (), make=False) as parent:
        found = {name: status for name in place.files if (status := file_status(name, parent))}
    return found


def _matters(_change: object, path: str) -> bool:
    return PurePosixPath(path).suffix.lower() == ".md" or not Path(path).is_file()


# The doctor's check.


def rivals(project: Path) -> list[Finding]:
    """Say which clients on this machine are told to remember in files of their own, and how to turn that off."""
    return [
        Finding(
            "clients",
            Level.OK,
            f"{client.title} tells its agents to remember in files of its own, so they may not store here. Searches "
            "find those files, too.",
            f"To have them store here, set `{client.remembers}` to false in its settings.",
        )
        for client in CLIENTS.values()
        if client.remembers and client.trace() and not _is_off(client, project)
    ]


def _is_off(client: Client, project: Path) -> bool:
    """Whether a file of settings turns the client's own memory off."""
    for file_of in (*client.files.values(), *client.hooks.values()):
        value: object = {}
        with suppress(OSError, ValidationError, ConfigurationError):
            value = content_of(text_in(read_file(file_of(project))))
        for name in client.remembers.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is False:
            return True
    return False
