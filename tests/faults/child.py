"""A process to be killed: `python -m faults.child ROLE PATH NUMBER`.

Each call is told on standard output, one JSON array a line, before it is made and after it has returned. Roles:
`work`: store, search and delete for ever, beginning with memory NUMBER.
`index`: open a file, making it or taking it over if need be, and make the missing vectors; the process kills itself
before its change number NUMBER to a file, and tells the number of changes if it survives.
`reembed`: make all vectors anew with another model, and die in the same way.
`share`: store and checkpoint until a line comes on standard input.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from faults.soundness import connected
from faults.workload import open_store, store_one, work
from inside import database_of
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

CHECKPOINTS = (
    apsw.SQLITE_CHECKPOINT_PASSIVE,
    apsw.SQLITE_CHECKPOINT_FULL,
    apsw.SQLITE_CHECKPOINT_RESTART,
    apsw.SQLITE_CHECKPOINT_TRUNCATE,
)


def tell(*words: str | int) -> None:
    """Write down an action before or after it is done."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def work_for_ever(path: Path, first: int) -> None:
    """Work until the end."""
    with open_store(path) as store:
        work(store, itertools.count(first), random.Random(first), tell)


class Counted(apsw.VFSFile):
    """A file that counts the changes to it, and lets one of them be the last thing that happens."""

    changes = itertools.count(1)
    last = 0

    def _change(self) -> None:
        if next(Counted.changes) == Counted.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._change()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._change()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._change()
        super().xSync(flags)


class CountedVFS(apsw.VFS):
    """The default VFS of a process that kills itself."""

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return Counted("unix", name, flags)


@contextlib.contextmanager
def dying_at(last: int) -> Iterator[None]:
    """Let the process die at a change of a file in the block; tell the number of changes if it does not."""
    Counted.last = last
    vfs = CountedVFS("counted", "unix")
    apsw.set_default_vfs("counted")
    yield
    apsw.set_default_vfs("unix")
    vfs.unregister()
    tell("changes", next(Counted.changes) - 1)


def index_until_death(path: Path, last: int) -> None:
    """Open and backfill a file; die at a change of it."""
    with dying_at(last), open_store(path) as store:
        database_of(store).create()
        store.backfill_embeddings()


def reembed_until_death(path: Path, last: int) -> None:
    """Change a file over to another model; die at a change of it."""
    with (
        dying_at(last),
        SessionMemoryStore(path, Settings(embedding_model="toy", embedding_dim=2), embedder=ToyEngine(2)) as store,
    ):
        store.reembed()


def wait_for_a_line(event: threading.Event) -> None:
    """Set the event when somebody writes to standard input."""
    sys.stdin.readline()
    event.set()


def share(path: Path, first: int) -> None:
    """Store memories, and checkpoint in every way after each; close and reopen the file now and then."""
    asked_to_stop = threading.Event()
    threading.Thread(target=wait_for_a_line, args=(asked_to_stop,), daemon=True).start()
    numbers, source = itertools.count(first), random.Random(first)
    while True:
        with open_store(path) as store, connected(path) as connection:
            for number in itertools.islice(numbers, 20):
                store_one(store, number, tell)
                # The other one may be at it.
                with contextlib.suppress(apsw.BusyError):
                    connection.wal_checkpoint(mode=source.choice(CHECKPOINTS))
        # Asked last: on a slow machine the process has hardly started by then.
        if asked_to_stop.is_set():
            return


ROLES: dict[str, Callable[[Path, int], None]] = {
    "work": work_for_ever,
    "index": index_until_death,
    "reembed": reembed_until_death,
    "share": share,
}

if __name__ == "__main__":
    role, file, number = sys.argv[1:]
    ROLES[role](Path(file), int(number))
