"""A server's processes at the other end of a pipe: what they answer, how soon, and what they take meanwhile."""

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any, Self

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
MARK = "PEERS_BENCHMARK_RUN"
PROTOCOL = "2025-06-18"
SECONDS_TO_ANSWER = 600
SECONDS_TO_END = 15
SECONDS_TO_REST = 180
SHARE_AT_REST = 0.1


class Answer:
    """What a tool returned: `ok` unless it is marked as an error, and `value`, its JSON, or its text if it has none."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        result = message.get("result", {"isError": True, "content": []})
        self.size = sum(len(block.get("text", "")) for block in result["content"])
        self.ok = not result.get("isError")
        text = "\n".join(block.get("text", "") for block in result["content"])
        try:
            self.value: Any = json.loads(text)
        except ValueError:
            self.value = text or message.get("error", "")

    def get(self, key: str) -> object:
        """Return a value of the object that was answered; None if it is a failure or no object."""
        return self.value.get(key) if self.ok and isinstance(self.value, dict) else None

    def said(self) -> str:
        """Return an answer in plain words; nothing if it is a failure."""
        return str(self.value) if self.ok else ""

    def texts(self) -> list[str]:
        """Return all strings in the answer, however deep."""
        return list(strings(self.value))


def strings(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value; keys of objects are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from strings(each)


def numbers(process: int, name: str, *fields: int) -> int:
    """Return the sum of some fields of a file of /proc, counted after the name of the program; 0 if it has ended."""
    with contextlib.suppress(OSError):
        values = Path(f"/proc/{process}/{name}").read_text().rpartition(") ")[2].split()
        return sum(int(values[field]) for field in fields)
    return 0


class Server:
    """An MCP server over standard input and output.

    A variable in its environment marks it and all processes that it starts: those are counted with it, and ended.
    """

    def __init__(self, command: Sequence[str], settings: Mapping[str, str], folder: Path) -> None:
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        with (folder / "stderr.log").open("ab") as log:
            self._process: Any = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **settings, MARK: self._mark.partition("=")[2]},
                cwd=folder,
            )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_END)
        for process in self._processes():
            with contextlib.suppress(OSError):
                os.kill(process, SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def tools(self) -> list[dict[str, Any]]:
        """Shake hands as MCP clients do, and return the list of tools."""
        client = {"name": "benchmark", "version": "1"}
        self._request("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return list(self._request("tools/list")["result"]["tools"])

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool."""
        return Answer(self._request("tools/call", name=tool, arguments=arguments))

    def memory_mb(self) -> float:
        """Return the resident memory of all its processes; what two of them share is counted twice."""
        return sum(numbers(process, "statm", 1) for process in self._processes()) * PAGE_MB

    def settle(self) -> float:
        """Wait until nothing is done in the background any more, and return for how long it was."""
        began = time.perf_counter()
        before = self._ticks()
        while time.perf_counter() - began < SECONDS_TO_REST:
            time.sleep(1)
            now = self._ticks()
            if now - before < SHARE_AT_REST * CLOCK_TICKS:
                break
            before = now
        return time.perf_counter() - began

    def _ticks(self) -> float:
        return sum(numbers(process, "stat", 11, 12) for process in self._processes())

    def _processes(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def _request(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            with contextlib.suppress(ValueError):  # some print other things among the messages
                message: dict[str, Any] = json.loads(self._next_line())
                if message.get("id") == self._number and "method" not in message:
                    return message

    def _next_line(self) -> bytes:
        try:
            line = self._lines.get(timeout=SECONDS_TO_ANSWER)
        except queue.Empty:
            raise TimeoutError(f"no answer in {SECONDS_TO_ANSWER} seconds") from None
        if not line:
            raise EOFError("the server ended")
        return line

    def _read(self) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(b"")

    def _send(self, message: Mapping[str, Any]) -> None:
        pipe = self._process.stdin
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()
