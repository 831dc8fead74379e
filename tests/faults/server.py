"""The real server in its own process, called line by line, so that it can be killed between two bytes."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from forked import COMMAND, Forked

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
STORE_TOOLS = {
    "report": "store_report",
    "report_observation": "store_report_observation",
    "working_memory": "store_working_memory",
    "knowledge_base": "store_knowledge_base",
}


class Server:
    """A server on a file, with the toy engine."""

    def __init__(self, path: Path) -> None:
        self._process = Forked(
            *(COMMAND, "serve", "--database-path", path),
            env={**os.environ, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy", "TIKTOKEN_CACHE_DIR": ""},
            cwd=path.parent,
        )
        self._last_id = 0
        self.receive(self.send("initialize", HELLO))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, method: str, parameters: dict[str, Any]) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": parameters}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._last_id

    def receive(self, request_id: int) -> dict[str, Any]:
        """Wait for the answer to a request and return its result."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == request_id:
                return dict(message["result"])
        raise EOFError

    def answers(self, method: str, every: Iterator[dict[str, Any]], under_way: int) -> Iterator[dict[str, Any]]:
        """Keep this many requests running, one per set of parameters, and yield their results as they arrive."""
        waiting = {self.send(method, parameters) for parameters in itertools.islice(every, under_way)}
        while waiting:
            message = json.loads(self._process.stdout.readline())
            if message.get("id") in waiting:
                waiting.remove(message["id"])
                waiting.update(self.send(method, parameters) for parameters in itertools.islice(every, 1))
                yield dict(message["result"])

    def ask_to_store(self, memory: dict[str, Any]) -> int:
        """Send a memory, without waiting for the receipt, and return the id of the request."""
        arguments = {key: value for key, value in memory.items() if key != "memory_type"}
        return self.send("tools/call", {"name": STORE_TOOLS[memory["memory_type"]], "arguments": arguments})

    def stored_id(self, request_id: int) -> int:
        """Wait for a receipt and return the id of the memory."""
        return int(self.receive(request_id)["structuredContent"]["memory_id"])
