"""The parameters that several tools share, each described once, and the store that is handed to every tool.

Pydantic checks types only. Ranges and lengths are checked once, below the tools, by values that say what to send
instead; what a client should know of them beforehand is added to the JSON schema by hand. Descriptions are short
because an agent reads all of them, for every tool, before its first question.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from fastmcp.dependencies import Depends
from fastmcp.server.dependencies import get_context
from mcp_types import ToolAnnotations
from pydantic import BeforeValidator, Field, StrictInt
from pydantic_core import PydanticCustomError

from vector_memory.domain import SearchMode
from vector_memory.indexing.indexer import EmbeddingProgress
from vector_memory.store import SessionMemoryStore
from vector_memory.validation import MAX_CONTENT, MAX_LIMIT, MAX_TAGS

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Counting accesses is book-keeping: what is stored stays as it is."""

STORES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Adds a memory. A repeat is refused as a duplicate and changes nothing."""


@contextmanager
def current_store() -> Iterator[SessionMemoryStore]:
    """Lend the store that the server's lifespan opened.

    Lent and not returned: the injection enters and leaves whatever can be left, which would close the store.
    """
    yield get_context().lifespan_context["store"]


async def current_progress() -> EmbeddingProgress:
    """Return what tells the client, if it has asked for that, how far a store has come; it may be called in a thread.

    Nobody waits for the client to read it, and a client that has gone does not make the store fail.
    """
    session, loop = get_context().session, asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        said = session.report_progress(done, total, f"Embedded {done:,} of {total:,} passages.")
        asyncio.run_coroutine_threadsafe(said, loop)

    return report


def from_json(value: object) -> object:
    """Read a list or object that a client sent as JSON text, as many do; anything else is left to be refused."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _no_switch(value: object) -> object:
    """Refuse true and false where a number is asked for: pydantic would read them as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "not a number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_no_switch)]

Store = Annotated[SessionMemoryStore, Depends(current_store)]
OnProgress = Annotated[EmbeddingProgress, Depends(current_progress)]

# Who and where: of a memory that is stored, ...
AgentId = Annotated[str, Field(description="Name of the agent storing this")]
SessionId = Annotated[str, Field(description="Session it belongs to")]
Iteration = Annotated[str | StrictInt, Field(description="Iteration, as 2 or v2")]
OptionalIteration = Annotated[str | StrictInt | None, Field(description="Iteration, as 2 or v2; default 1")]
TaskCode = Annotated[str | None, Field(description="Task label to filter by later")]

# ... and of the memories that are looked for.
OfAgent = Annotated[str | None, Field(description="Only this agent")]
OfSession = Annotated[str | None, Field(description="Only this session")]
InSession = Annotated[str, Field(description="Session id")]
OfIteration = Annotated[str | StrictInt | None, Field(description="Only this iteration")]
OfTask = Annotated[str | None, Field(description="Only this task")]
OfCategory = Annotated[str | None, Field(description="Only this category")]

# What is stored.
Content = Annotated[str, Field(description=f"Text, up to {MAX_CONTENT} characters")]
Document = Annotated[str, Field(description=f"Markdown with headings, up to {MAX_CONTENT} characters")]
Title = Annotated[str | None, Field(description="Title")]
Description = Annotated[str | None, Field(description="One-line summary")]
Tags = Annotated[
    # One bad tag is enough: of a million there is one message.
    list[str] | None,
    Field(description=f"Up to {MAX_TAGS} labels", fail_fast=True),
    BeforeValidator(from_json),
]
Metadata = Annotated[dict[str, object] | None, BeforeValidator(from_json), Field(description="Any JSON object")]

# What is looked for, and how much of it.
Query = Annotated[str, Field(description="What to find, as a question or phrase")]
OptionalQuery = Annotated[str | None, Field(description="What to find; used by order=relevance")]
Limit = Annotated[WholeNumber, Field(description=f"Results, up to {MAX_LIMIT}")]
Skip = Annotated[WholeNumber, Field(description="next_offset, for more")]
MaxTokens = Annotated[WholeNumber | None, Field(description="Longest answer")]
Mode = Annotated[
    str | None,
    Field(description="Default hybrid: meaning and words", json_schema_extra={"enum": list(SearchMode)}),
]
LatestFirst = Annotated[bool, Field(description="false: oldest first")]
Order = Annotated[Literal["recent", "relevance"], Field(description="relevance: best match of query first")]

# Ids, as a store or a search returned them.
MemoryId = Annotated[str | StrictInt, Field(description="As returned by a store or search")]
ChunkId = Annotated[str | StrictInt, Field(description="chunk_id from a search")]
ReportId = Annotated[str | StrictInt | None, Field(description="Report it is about")]
Offset = Annotated[
    WholeNumber, Field(description="Character to read on from: content_end", json_schema_extra={"minimum": 0})
]
