"""Results of reading, exporting and deleting memories."""

from pydantic import Field

from vector_memory.answers import models


class TaskContextResult(models.ReportsResult):
    """What an agent needs to continue a session. Reports, notes and observations are shortened to their beginnings."""

    pinned: list[models.Beginning] = models.unless_empty([])
    session_context: models.MemoryEntry | None = None
    input_prompts: list[models.Beginning] = Field(default=[])
    recent_reports: list[models.Beginning] = Field(default=[])
    recent_working_memory: list[models.Beginning] = Field(default=[])
    recent_observations: list[models.Beginning] = Field(default=[])
    superseded: int = models.unless_zero(models.SUPERSEDED)
    omitted: list[models.Omitted] = models.unless_empty([])


class ChunkEntry(models.Value):
    """A chunk as a part of its document."""

    chunk_id: int
    chunk_index: int
    content: str
    chunk_type: str
    header_path: str
    level: int


class ExpandedChunkResult(models.ReportsResult, models.Succession, models.Came):
    """A chunk with its neighbours. `expanded_content` is the part of the document that they cover, without overlaps."""

    memory_id: int
    memory_type: str
    agent_id: str
    session_id: str | None = None
    created_at: models.Time
    target_chunk_index: int
    context_window: int
    chunks_returned: int = 0
    expanded_content: str
    content_end: int | None = models.unless_empty(
        description="Set if a chunk is cut: read on with get_memory_by_id from this offset"
    )
    chunks: list[ChunkEntry] = Field(default=[])


class DocumentResult(models.ReportsResult, models.Succession, models.Evidenced, models.Came):
    """A document as stored, or the part of it that fits."""

    memory_id: int
    content: str
    title: str | None = None
    memory_type: str
    agent_id: str
    session_id: str | None = None
    created_at: models.Time
    chunk_count: int
    content_length: int = Field(description="Length of the whole content in characters")
    content_end: int | None = models.unless_empty(description="Set if content is cut: offset to read on from")


class MemoryResult(models.ReportsResult):
    """One memory."""

    memory: models.MemoryEntry


class ExportResult(models.Result):
    """A written file."""

    file_path: str
    memory_id: int
    bytes_written: int


class AmendResult(models.Result):
    """A memory's title, description, tags and pin after a change."""

    memory_id: int
    title: str | None = models.unless_empty()
    description: str | None = models.unless_empty()
    tags: list[str] = models.unless_empty([])


class SupersedeResult(models.Result):
    """The memories that a memory supersedes now."""

    memory_id: int
    supersedes: list[int] = Field(default=[])


class NearMemory(models.Provenance):
    """A memory whose mean vector is near. `beginning` is the first words of its content.

    `is_copy`: the newer of the two repeats all of the older one.
    """

    memory_id: int
    beginning: str
    similarity: models.Share
    is_copy: bool


class MemoryPage(models.Value):
    """Everything about a memory, uncut.

    `observations`: those on it, if it is a report. `later`: the newest memories on its subject; `later_more` counts
    further ones.
    """

    memory: models.MemoryEntry
    chunks: list[ChunkEntry]
    observations: list[models.ObservationNote]
    nearest: list[NearMemory]
    later: list[models.LaterMemory] = Field(default=[])
    later_more: int = 0


class DeleteResult(models.Result):
    """A deleted memory."""

    memory_id: int
