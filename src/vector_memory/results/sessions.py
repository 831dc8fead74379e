"""Results of the session tools: pydantic models whose fields are the keys of the contract.

A failed call has the same shape: `success` is false, `error` a code, `message` says what to do next, and all other
fields have their default or null (`Result.failed`).
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

SCOPED_MATCH = 2.0
"""The similarity of a result that was matched by filters only."""


Source = Literal["vector", "keyword"]
"""The ranking that a result came from: by meaning, or by words."""

Confidence = Literal["high", "low"]

VectorsState = Literal["ready", "pending", "unavailable"]
"""Whether a memory can be found by meaning: yes, in a moment, or not before a backfill."""


class Result(BaseModel):
    """Base of all results."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    success: bool = True
    message: str | None = None
    error: str | None = None

    @classmethod
    def failed(cls, code: str, message: str, **facts: object) -> Self:
        """Return the body of a failed call: fields without a default are None."""
        absent = {name: None for name, field in cls.model_fields.items() if field.is_required()}
        values: dict[str, Any] = absent | facts | {"success": False, "error": code, "message": message}
        return cls.model_construct(**values)


class StoreMemoryResult(Result):
    """Receipt of the store tools. `content_hash` is the first 16 hex digits of the content's SHA-256."""

    memory_id: int
    memory_type: str
    agent_id: str
    session_id: str | None = None
    content_hash: str
    chunks_created: int
    passages_created: int = Field(description="Passages with a vector; together they cover the whole text")
    vectors: VectorsState = Field(description="pending: found by words already, and by meaning in a moment")
    token_count: int | None = Field(default=None, description="Tokens of the whole text, if it is chunked")
    created_at: str


class MemoryEntry(BaseModel):
    """A whole memory. `content_end` is set if the content is cut: read on from that offset."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    content: str
    title: str | None
    description: str | None
    tags: list[str]
    metadata: dict[str, Any]
    content_hash: str
    created_at: str
    updated_at: str
    accessed_at: str
    access_count: int
    content_length: int = Field(description="Length of the whole content in characters")
    content_end: int | None = Field(default=None, description="Set if content is cut: offset to read on from")


class FoundMemory(MemoryEntry):
    """A whole memory in a search result. `similarity` is 2.0 if matched by filters, None if matched by words only."""

    similarity: float | None = SCOPED_MATCH
    source_type: Literal["scoped", "vector", "keyword"] = "scoped"
    sources: list[Source] = []


class Omitted(BaseModel):
    """A result that did not fit into the answer: the id of the chunk or memory, and its length in characters."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: int
    characters: int


class SearchResult(Result):
    """Base of all search results. `confidence` is None if nothing was compared by meaning."""

    total_results: int = 0
    next_offset: int | None = Field(default=None, description="Set if there is more: send it as offset")
    omitted: list[Omitted] = []
    confidence: Confidence | None = Field(default=None, description="low: nothing seems to be on this topic")
    elsewhere: dict[str, int] = Field(default={}, description="If low: number of matches outside the filters")


class SearchMemoriesResult(SearchResult):
    """Results of the searches for memories that are not chunked."""

    results: list[FoundMemory] = []
    query: str | None = None
    filters: dict[str, Any] = {}
    limit: int
    latest_first: bool


class Provenance(BaseModel):
    """Where a found text comes from, so that readers can tell stored data from instructions."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    title: str | None
    created_at: str


class FoundChunk(Provenance):
    """A chunk that matched. `similarity` is the cosine of its best passage, clipped to 0-1.

    Results are ranked by meaning and words together; `similarity` measures meaning only, and is None if only words
    were compared.
    """

    chunk_id: int
    memory_id: int
    chunk_index: int
    chunk_content: str
    content_start: int = Field(description="Offset of chunk_content in the document")
    content_end: int | None = Field(
        default=None, description="Set if the chunk is cut: read on with get_memory_by_id from this offset"
    )
    chunk_type: str
    header_path: str
    level: int
    similarity: float | None
    source: Literal["chunk"] = "chunk"
    sources: list[Source]
    granularity: Literal["fine"] = "fine"


class FoundSection(Provenance):
    """A section with matching chunks. `similarity` is the mean of theirs, None if only words were compared."""

    memory_id: int
    section_header: str
    section_content: str
    header_path: str
    chunks_in_section: int
    matched_chunks: int
    match_ratio: float
    auto_merged: bool
    similarity: float | None
    source: Literal["expanded_section"] = "expanded_section"
    sources: list[Source]
    granularity: Literal["medium"] = "medium"
    content_start: int = Field(description="Offset of section_content in the document")
    content_end: int | None = Field(
        default=None, description="Set if the section is cut: read on with get_memory_by_id from this offset"
    )


class FineSearchResult(SearchResult):
    """Chunks, best first."""

    results: list[FoundChunk] = []
    granularity: Literal["fine"] = "fine"


class MediumSearchResult(SearchResult):
    """Sections, best first."""

    results: list[FoundSection] = []
    granularity: Literal["medium"] = "medium"


class CoarseSearchResult(SearchResult):
    """Whole documents, newest or best first."""

    results: list[FoundMemory] = []
    granularity: Literal["coarse"] = "coarse"


class ChangesResult(Result):
    """What others stored in a session since a cursor: oldest first, or with a query, best matches first."""

    results: list[FoundMemory] = []
    cursor: str = Field(description="Send it as since in the next call")
    has_more: bool = Field(default=False, description="More is new: call again with the cursor")
    total_new: int = Field(default=0, description="Number of new memories, including those not in this answer")
    confidence: Confidence | None = Field(default=None, description="low: nothing new seems to be about the query")


class TaskContextResult(Result):
    """Everything an agent needs to continue a session."""

    session_context: MemoryEntry | None = None
    input_prompts: list[MemoryEntry] = []
    recent_reports: list[MemoryEntry] = []
    recent_working_memory: list[MemoryEntry] = []
    recent_observations: list[MemoryEntry] = []
    omitted: list[Omitted] = []


class ChunkEntry(BaseModel):
    """A chunk as a part of its document."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    chunk_id: int
    chunk_index: int
    content: str
    chunk_type: str
    header_path: str
    level: int


class ExpandedChunkResult(Result):
    """A chunk with its neighbours. `expanded_content` is the part of the document that they cover, without overlaps."""

    memory_id: int
    memory_type: str
    agent_id: str
    session_id: str | None = None
    created_at: str
    target_chunk_index: int
    context_window: int
    chunks_returned: int = 0
    expanded_content: str
    content_end: int | None = Field(
        default=None, description="Set if a chunk is cut: read on with get_memory_by_id from this offset"
    )
    chunks: list[ChunkEntry] = []


class DocumentResult(Result):
    """A document as stored, or the part of it that fits."""

    memory_id: int
    content: str
    title: str | None = None
    memory_type: str
    agent_id: str
    session_id: str | None = None
    created_at: str
    chunk_count: int
    content_length: int = Field(description="Length of the whole content in characters")
    content_end: int | None = Field(default=None, description="Set if content is cut: offset to read on from")


class MemoryResult(Result):
    """One memory."""

    memory: MemoryEntry


class ExportResult(Result):
    """A written file."""

    file_path: str
    memory_id: int
    bytes_written: int


class DeleteResult(Result):
    """A deleted memory."""

    memory_id: int
