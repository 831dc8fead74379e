"""The tools for a folder of Markdown files. Names, parameters and results follow the specification, in camel case."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastmcp import Context
from fastmcp.dependencies import Depends
from fastmcp.server.dependencies import get_context
from fastmcp.tools import tool
from mcp_types import ToolAnnotations
from pydantic import Field

from vector_memory.answers.tagged import FileSearchResult, FileStatusResult, FileTextResult, FileWriteResult
from vector_memory.domain import FileSource
from vector_memory.server.current_store import FileMemory
from vector_memory.server.tools.params import READS, Limit, WholeNumber, found_by
from vector_memory.server.turns import FILE, in_worker

SECONDS_BETWEEN_REPORTS = 0.1
REPORTS = 5
"""Maximum number of progress reports before the answer, which then no longer waits for the index."""


@contextmanager
def current_files() -> Iterator[FileMemory]:
    """Yield the memory files that the server's lifespan opened."""
    yield get_context().lifespan_context["files"]


Files = Annotated[FileMemory, Depends(current_files)]


@tool(
    title="Search memory files",
    annotations=READS,
    meta=found_by("recall, search memory files, find note, what did we do last time", always=True),
)
async def memory_search(
    *,
    files: Files,
    context: Context,
    query: Annotated[str, Field(description="What to find, as a question or phrase")],
    limit: Limit = 5,
    source: Annotated[
        str,
        Field(
            description="memory: lasting notes; daily: logs named YYYY-MM-DD.md",
            json_schema_extra={"enum": list(FileSource)},
        ),
    ] = FileSource.ALL.value,
    explain: Annotated[str | None, Field(description='Path of a missing file, or "all": explains why')] = None,
) -> FileSearchResult:
    """Memory files: find passages of the project's Markdown notes by meaning and words; read more with memory_get."""
    await report_progress(files, context)
    return await asyncio.to_thread(files.search, query, limit, source, explain)


@tool(title="Read memory file", annotations=READS)
def memory_get(
    *,
    files: Files,
    path: Annotated[str, Field(description="As returned by memory_search, or relative to the memory folder")],
    startLine: Annotated[WholeNumber | None, Field(description="First line, starting at 1")] = None,  # noqa: N803 - the specification's
    lines: Annotated[WholeNumber | None, Field(description="Number of lines; default: to the end")] = None,
    offset: Annotated[WholeNumber | None, Field(description="Characters of the first line to leave out")] = None,
) -> FileTextResult:
    """Memory file: read it, or some of its lines."""
    return files.get(path, startLine, lines, offset)


@tool(
    title="Write to daily log",
    # An identical entry is dropped within the same minute only.
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
    ),
    meta=found_by("remember this, save memory, note, daily log"),
)
async def memory_write(
    *,
    files: Files,
    entry: Annotated[str, Field(description="Markdown to append")],
    topic: Annotated[str | None, Field(description="For the heading: ## HH:MM — topic")] = None,
) -> FileWriteResult:
    """Memory file: append an entry to today's log; it becomes searchable shortly after."""
    return await in_worker(FILE, files.write, entry, topic)


@tool(title="Memory index status", annotations=READS)
async def memory_status(*, files: Files, context: Context) -> FileStatusResult:
    """Memory files: report how many are indexed and whether the index is complete."""
    await report_progress(files, context)
    return await asyncio.to_thread(files.status)


async def report_progress(files: FileMemory, context: Context) -> None:
    """Report indexing progress to a client that asked for it, for up to half a second."""
    for _ in range(REPORTS):
        if files.wait_for_words(0):
            return
        progress = files.progress()
        await context.report_progress(progress.files_done, progress.files_total, "Indexing memory files")
        await asyncio.sleep(SECONDS_BETWEEN_REPORTS)
