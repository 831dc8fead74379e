"""A shared memory in a process of its own, and relays to it."""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from over_http.processes import Running, running
from servers import LEGACY, Server
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.http.relay import outbox_of
from vector_memory.writing.outbox import Outbox


def free_port() -> int:
    """Return a port that is free, and that no system gives to whoever asks for any."""
    for port in random.Random().sample(range(10_000, 30_000), 1_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("there is no free port")


class Shared:
    """A shared memory on a port of its own, which comes and goes, and relays to it that have one outbox.

    `disk`: where the memory is, if not in the folder.
    """

    def __init__(self, folder: Path, disk: Path | None = None) -> None:
        self.team, self._here = (disk or folder) / "team", folder / "here"
        self._here.mkdir()
        self.port = str(free_port())
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        Registry(self.team).create("red")
        self._token = self._here / "token"
        self._token.write_text(f"{Registry(self.team).tokens.create('relay', 'red', Permission.WRITE)}\n")
        self._token.chmod(0o600)

    def running(self, **variables: str) -> AbstractContextManager[Running]:
        """Run the server."""
        return running(self.team, "--port", self.port, **variables)

    @contextmanager
    def relay(self, version: str = LEGACY, start: Sequence[str] = ()) -> Iterator[Server]:
        """Run a relay. `start`: as of a `Server`."""
        place = {"VECTOR_MEMORY_REMOTE": self.url, "VECTOR_MEMORY_TOKEN_FILE": str(self._token)}
        with Server(self._here, version=version, start=start, **self.home, **place) as relay:
            yield relay.hello()

    @property
    def home(self) -> dict[str, str]:
        """The variables of the machine that has the relays."""
        return {"XDG_STATE_HOME": str(self._here)}

    @property
    def database(self) -> Path:
        """The file of the memory."""
        return Registry(self.team).address("red")

    @property
    def outbox(self) -> Outbox:
        """What waits for the shared memory."""
        return Outbox(self.folder)

    @property
    def folder(self) -> Path:
        return self._here / "vector-memory" / "outbox" / outbox_of(self.url, self._token).folder.name
