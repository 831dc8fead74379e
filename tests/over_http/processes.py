"""Server processes over HTTP."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from forked import COMMAND, Forked
from over_http.calling import called
from servers import QUICK
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Registry
from waiting import eventually


class Running:
    """A server process, and a token of the namespace red. Its workers are started by the real command."""

    def __init__(self, folder: Path, *flags: str, start: Sequence[str] = (COMMAND,), **variables: str) -> None:
        self.folder = folder
        if not Registry(folder).names():
            Registry(folder).create("red")
        self.secret = self.token(f"ada-{time.time_ns()}", "admin")
        self.log = folder / "log.txt"
        port = () if "--port" in flags else ("--port", "0")
        words = [*start, "serve", "--http", "--data-dir", folder, *flags, *port]
        with self.log.open("wb") as log:
            variables = os.environ | QUICK | {"VECTOR_MEMORY_LOG_LEVEL": "INFO"} | variables
            self.process = Forked(*words, env=variables, cwd=folder, into={1: log, 2: log})
        self.process.hang_up()
        eventually(lambda: b"Serving " in self.log.read_bytes() or self.process.poll() is not None)
        self.url = self.log.read_text().partition("Serving ")[2].split()[0]
        eventually(lambda: self.is_alive() or self.process.poll() is not None)

    def token(self, name: str, permission: str) -> str:
        """Create a token of the namespace red."""
        return Registry(self.folder).tokens.create(name, "red", Permission(permission))

    def is_alive(self) -> bool:
        try:
            return httpx2.get(self.url.replace("/mcp", "/healthz"), verify=False).status_code == 200
        except httpx2.TransportError:
            return False

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return called(self.url, self.secret, tool, **arguments)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.split("/")[2].rsplit(":", 1)
        return host, int(port)


@contextmanager
def running(folder: Path, *flags: str, **variables: str) -> Iterator[Running]:
    """Run a server, and end it if the test has not."""
    server = Running(folder, *flags, **variables)
    try:
        yield server
    finally:
        server.process.terminate()
        assert server.process.wait(60) is not None


def workers_of(server: Running) -> list[int]:
    """Return the process ids of the workers."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], capture_output=True, check=False)
    return [int(line) for line in found.stdout.split()]


def established(address: tuple[str, int]) -> int:
    """Return the number of connections to a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{address[1]:04X}") and line.split()[3] == "01" for line in lines)
