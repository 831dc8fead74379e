"""The real server process at the other end of a pipe, and what it needs while it answers."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
OUR_SERVER = (sys.executable, str(ROOT / "main.py"), "serve", "--database-path")


class Server:
    """An MCP server over standard input and output, called line by line. Default: ours; `settings` are variables."""

    def __init__(
        self, database: Path | None = None, command: Sequence[str] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        self._began = time.perf_counter()
        self._process: Any = subprocess.Popen(
            command or [*OUR_SERVER, str(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(settings or {})},
        )
        self._number = 0

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return dict(answer["result"])

    def initialize(self) -> None:
        """Shake hands as MCP clients do."""
        client = {"name": "benchmark", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer, which has to be a success."""
        return dict(self.result(tool, **arguments)["structuredContent"])

    def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the whole result, which has to be a success."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return result

    def memory_mb(self, field: str = "VmRSS") -> float:
        """Return a field of /proc/PID/status in MB: VmRSS (now), VmHWM (peak), RssAnon (its own, not mapped files)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field))

    def cpu_ms(self) -> float:
        """Return the processor time that the process and its threads have used, to the microsecond."""
        clock = ~self._process.pid << 3 | 2  # as clock_getcpuclockid(3) makes it on Linux
        return time.clock_gettime(clock) * 1000

    def elapsed_ms(self) -> float:
        """Return the time since the process was started."""
        return (time.perf_counter() - self._began) * 1000

    def stop(self) -> None:
        """Hang up."""
        self._process.communicate(timeout=10)

    def kill(self) -> None:
        """End the process as if the power had gone."""
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        pipe = self._process.stdin
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()
