"""The values that storage returns. Times are ISO 8601 in UTC, so that they sort as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vector_memory.domain import Chunk

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

NamedBy = Literal["session_id", "agent_id", "task_code"]
"""What has names, as the columns are called."""

VectorsByTag = Mapping[str, "NDArray[np.float32]"]
"""Vectors of tags, by the tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory. Times are ISO 8601 in UTC; `content_hash` is the full SHA-256 in hex."""

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
    chunked: bool
    chunk_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a memory comes from: what a reader of a part of it has to know."""

    id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    title: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a stored document, with its ids."""

    id: int
    memory_id: int
    chunk: Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOutline:
    """A chunk without its text."""

    id: int
    memory_id: int
    start: int
    end: int
    headings: tuple[str, ...]


class StoredPassage(NamedTuple):
    """A passage with its vector, shape (dimensions,); `chunk`: the position of its chunk in the document, or None."""

    chunk: int | None
    start: int
    end: int
    vector: "NDArray[np.float32]"


class History(NamedTuple):
    """When a memory was stored, changed and read last, as ISO 8601 in UTC, and how often it was read."""

    created_at: str
    updated_at: str
    accessed_at: str
    access_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A memory without its text but the `beginning` of it."""

    memory_id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    title: str | None
    created_at: str
    beginning: str
    content_length: int
    chunk_count: int


class Listed(NamedTuple):
    """A memory and the size of its text in bytes of UTF-8."""

    id: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session as it is listed; `agent_id` stored last, `agents` are the first by name of `agent_count`."""

    session_id: str
    agent_id: str
    agents: list[str]
    agent_count: int
    memory_count: int
    latest_activity: str
    memory_types: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCounts:
    """What one session holds. The times and the highest iteration are None in an empty session."""

    memory_counts: dict[str, int]
    agent_counts: dict[str, int]
    total_memories: int
    total_chunks: int
    latest_iteration: int | None
    earliest_created: str | None
    latest_created: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """What a whole file holds. The times are None in an empty one."""

    memory_counts: dict[str, int]
    total_memories: int
    total_chunks: int
    total_sessions: int
    total_agents: int
    without_vectors: int
    embedding_model: str | None
    database_bytes: int
    earliest_created: str | None
    latest_created: str | None


@dataclass(frozen=True, slots=True)
class CanonicalTag:
    """A tag as the vocabulary has it. `frequency`: on how many memories it was ever stored; deleting lowers nothing."""

    tag: str
    frequency: int
    created_at: str


class TagVectors(NamedTuple):
    """All canonical tags, the oldest first, and their vectors, shape (tags, dimensions); zeros where one is missing."""

    tags: list[str]
    vectors: "NDArray[np.float32]"
