"""The real server at the other end of a pipe, in the profile that a client would start."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

MAIN = Path(__file__).parents[2] / "main.py"
CLIENT = {"name": "benchmark", "version": "1"}


class Server:
    """A server on a memory, with nothing set but its profile and `options`. Its answers are those of the client."""

    def __init__(self, memory: Path, profile: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(MAIN), "serve", "--database-path", str(memory), "--profile", profile, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool and return the whole result, which has to be a success."""
        result = self._request("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return result

    def _request(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        for line in cast("IO[bytes]", self._process.stdout):
            message = json.loads(line)
            if message.get("id") == self._number:
                return dict(message["result"])
        raise EOFError

    def _send(self, message: dict[str, Any]) -> None:
        pipe = cast("IO[bytes]", self._process.stdin)
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()
