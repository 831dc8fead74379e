"""Starts the server as a client does, stores and searches, and passes the results to the output."""

import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError

from vector_memory.answers.models import StoreMemoryResult
from vector_memory.cli.demo.output import Output, Pages, Subject, Tool
from vector_memory.domain.text import text_in
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_CONTENT_BYTES
from vector_memory.errors import DuplicateMemoryError, ValidationError, VectorMemoryError

AGENT, SESSION = "demo-agent", "demo"
RESULTS_ASKED = 3

SKIPPED = (DuplicateMemoryError.code, ValidationError.code)
"""Errors about a single file; any other ends the demo."""


@dataclass(frozen=True)
class Demo:
    """A demo on one database; `log` is a file for the server's standard error."""

    server: Sequence[str]
    database: Path
    log: Path
    output: Output

    async def run(self, subject: Subject, asked: Sequence[tuple[Tool, str]]) -> None:
        """Store the files and ask the questions. Raises VectorMemoryError if the server fails."""
        command, *arguments = self.server
        arguments += ["--database-path", str(self.database)]
        # The first question follows the last file at once, and the time that is shown includes the vectors.
        environment = {**os.environ, "VECTOR_MEMORY_EMBED_IN_BACKGROUND": "false"}
        transport = StdioTransport(command, arguments, env=environment, keep_alive=False, log_file=self.log)
        try:
            async with AsyncExitStack() as stack:
                with self.output.waiting("Starting the server"):
                    client = await stack.enter_async_context(Client(transport))
                stored, first = Pages(), subject.first
                for files, questions in ((subject.files[:first], asked[: bool(first)]), (subject.files[first:], ())):
                    await self._store(client, subject, files, stored)
                    for grain, question in questions:
                        await self._ask(client, grain, question)
                self.output.stored(stored, self.database)
                for grain, question in asked[bool(first) :]:
                    await self._ask(client, grain, question)
        except (RuntimeError, MCPError) as error:
            said = self.log.read_text(encoding="utf-8").splitlines()
            raise VectorMemoryError(
                f"The server stopped. {said[-1].removeprefix('vector-memory: ') if said else error}"
            ) from error

    async def _store(
        self, client: Client[StdioTransport], subject: Subject, files: Sequence[Path], stored: Pages
    ) -> None:
        started = time.perf_counter()
        with self.output.progress(len(files)) as advance:
            for file in files:
                title = subject.title(file)
                advance(title)
                try:
                    text = text_in(read_file(file, MAX_CONTENT_BYTES))
                except ValidationError:
                    stored.skip(title, "is not text in UTF-8")
                except OSError as error:
                    stored.skip(title, error.strerror or "cannot be read")
                else:
                    stored.add(title, text, await self._store_report(client, title, text))
        stored.seconds += time.perf_counter() - started

    async def _store_report(self, client: Client[StdioTransport], title: str, text: str) -> StoreMemoryResult:
        arguments = {"agent_id": AGENT, "session_id": SESSION, "title": title, "content": text}
        reply = await client.call_tool("store_report", arguments, raise_on_error=False)
        body: dict[str, Any] = reply.structured_content or {}
        if body.get("success"):
            return StoreMemoryResult.model_validate(body)
        if body["error"] not in SKIPPED:
            raise VectorMemoryError(body["message"])
        # The body of a failed call has null where a receipt always has a value.
        return StoreMemoryResult.failed(body["error"], body["message"], memory_id=body.get("memory_id"))

    async def _ask(self, client: Client[StdioTransport], grain: Tool, question: str) -> None:
        arguments = {"query": question, "session_id": SESSION, "limit": RESULTS_ASKED, **grain.arguments}
        started = time.perf_counter()
        reply = await client.call_tool(grain.tool, arguments, raise_on_error=False)
        seconds = time.perf_counter() - started
        self.output.answer(grain, question, grain.answer.model_validate(reply.structured_content), seconds)
