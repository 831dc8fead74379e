"""The tools that read stored memories: whole, in part, around a chunk, as a task's context, or as a file."""

from typing import Annotated

from fastmcp.tools import tool
from pydantic import Field

from vector_memory.answers.documents import (
    DocumentResult,
    ExpandedChunkResult,
    ExportResult,
    MemoryResult,
    TaskContextResult,
)
from vector_memory.server.tools.params import (
    DELETES,
    READS,
    AsOf,
    ChunkId,
    InSession,
    LatestIteration,
    MemoryId,
    Offset,
    Store,
    Switch,
    WholeNumber,
    found_by,
)


@tool(
    title="Load session context for task",
    annotations=READS,
    meta=found_by("continue where we left off, resume, what did we do last time, recall session", always=True),
)
def load_session_context_for_task(
    *,
    store: Store,
    session_id: InSession,
    session_iter: LatestIteration = None,
    max_tokens: Annotated[WholeNumber | None, Field(description="Maximum answer length; default 4000")] = None,
    as_of: AsOf = None,
) -> TaskContextResult:
    """Continue a session: read its saved state and prompts, and the beginnings of its latest reports and notes."""
    return store.load_session_context_for_task(session_id, session_iter, max_tokens, as_of)


@tool(title="Expand chunk context", annotations=READS)
def expand_chunk_context(
    *,
    store: Store,
    chunk_id: ChunkId,
    surrounding_chunks: Annotated[WholeNumber, Field(description="Chunks on each side (0-50)")] = 2,
) -> ExpandedChunkResult:
    """Read the text around a chunk that a search found."""
    return store.expand_chunk_context(chunk_id, surrounding_chunks)


@tool(title="Reconstruct document", annotations=READS)
def reconstruct_document(*, store: Store, memory_id: MemoryId, offset: Offset = 0) -> DocumentResult:
    """Read the exact text of a document; long documents in parts, by offset."""
    return store.reconstruct_document(memory_id, offset)


@tool(title="Get memory by id", annotations=READS)
def get_memory_by_id(*, store: Store, memory_id: MemoryId, offset: Offset = 0) -> MemoryResult:
    """Session memory: read one of any kind by id; long ones in parts, by offset."""
    return store.get_memory_by_id(memory_id, offset)


@tool(
    title="Write document to file",
    annotations=DELETES,  # because of `overwrite`; repeating the call writes the same file
)
def write_document_to_file(
    *,
    store: Store,
    memory_id: MemoryId,
    output_path: Annotated[str, Field(description="Path inside the export folder")],
    overwrite: Annotated[Switch, Field(description="Replace an existing file")] = False,
) -> ExportResult:
    """Export a memory to a Markdown file with YAML front matter."""
    return store.write_document_to_file(memory_id, output_path, overwrite=overwrite)
