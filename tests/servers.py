"""Real server processes, called line by line in either protocol era."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from forked import COMMAND, Forked
from waiting import eventually

MAIN = Path(__file__).parent.parent / "main.py"
SLOW_MODEL = Path(__file__).parent / "process" / "slow_model"
CLIENT = {"name": "test", "version": "1"}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
QUICK = {"VECTOR_MEMORY_EMBEDDING_MODEL": "toy", "TIKTOKEN_CACHE_DIR": "", "VECTOR_MEMORY_LOG_LEVEL": "WARNING"}
"""The toy engine, no token table, which would take longer to load than the rest, and no word about what is created."""

SECONDS_TO_END = 25
"""A hundred times what a server takes, and less than it waits for a lock that another process holds."""


class Server:
    """A server on `folder/memory.db`, or the database at `url`, in `folder`.

    It is forked, and may be `-c` and code, unless `start` is the command of another process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str = LEGACY,
        start: Sequence[str] = (),
        url: str | None = None,
        **variables: str,
    ) -> None:
        self.path = folder / "memory.db"
        self._version = version
        self._last_id = 0
        words = ["serve", "--database-path", self.path] if url is None else ["serve", "--database-url", url]
        environment = {**os.environ, **QUICK, **variables}
        self.process: Forked | subprocess.Popen[bytes]
        if start and start[0] != "-c":
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            self.process = subprocess.Popen([*start, *words], **pipes, env=environment, cwd=folder)
        else:
            self.process = Forked(*(start or [COMMAND]), *words, env=environment, cwd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()

    def hello(self) -> Self:
        """Open the conversation in the server's era."""
        if self._version == MODERN:
            self.request("server/discover")
        else:
            self.request("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=CLIENT)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the answer, whatever it is."""
        return self.receive(self.ask(method, **params))

    def ask(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        message = self.message(method, **params)
        self.send(message)
        return int(message["id"])

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        """Return a request with an id of its own."""
        self._last_id += 1
        if self._version == MODERN:
            params["_meta"] = ENVELOPE
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        return dict(self.request("tools/call", name=tool, arguments=arguments)["result"]["structuredContent"])

    def ask_tool(self, tool: str, **arguments: Any) -> int:
        """Call a tool without waiting, and return the id of the request."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def answer(self, request_id: int) -> dict[str, Any]:
        """Wait for the structured answer of a call."""
        return dict(self.receive(request_id)["result"]["structuredContent"])

    def send(self, message: object) -> None:
        """Write a message."""
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, request_id: int | None = None) -> dict[str, Any]:
        """Wait for the next message, or for the answer to a request."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if request_id is None or message.get("id") == request_id:
                return message
        raise EOFError

    def hang_up(self, *, reading: bool) -> None:
        """Close the server's input, and unless `reading` its output too, as when the client dies."""
        self.process.stdin.close()
        if not reading:
            self.process.stdout.close()

    def end(self, how: str) -> None:
        """Tell the server to end, by the name of a signal or by hanging up, and wait until it has."""
        if how.startswith("SIG"):
            self.process.send_signal(getattr(signal, how))
        else:
            self.hang_up(reading=how == "end of input")
        self.process.wait(SECONDS_TO_END)

    def errors(self) -> bytes:
        """Return what the server, which has ended, wrote to standard error."""
        return self.process.stderr.read()

    def peak_mb(self) -> float:
        """Return the largest resident memory of the process so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    eventually(path.exists)
