"""The values that storage returns. Times are ISO 8601 in UTC, so that they sort as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from vector_memory.domain import Chunk, Fingerprint
from vector_memory.validation import parse_id

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observation on a report, without its text but the `beginning` of it."""

    id: int
    report_id: int
    agent_id: str
    created_at: str
    beginning: str


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
    access_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A memory without its text but the `beginning` of it. `content_bytes`: its length in UTF-8."""

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
    content_bytes: int
    chunk_count: int


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

    def missing(self) -> list[str]:
        """Return the tags that have no vector."""
        return [tag for tag, present in zip(self.tags, map(any, self.vectors), strict=True) if not present]


class EmbeddedPassage(NamedTuple):
    """A passage of the unit at position `piece`, as offsets in the memory's content."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """The passages of a memory's units, in order, and one vector for each, shape (passages, dimensions)."""

    passages: list[EmbeddedPassage]
    vectors: "NDArray[np.float32]"
    fingerprint: Fingerprint


class UnitWords(Protocol):
    """What a keyword index holds of the units of one memory, as its engine has prepared it."""

    @property
    def units(self) -> int:
        """The number of units: of chunks, or 1 for a memory without chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Everything that is derived from a memory's text and stored with it.

    `words`: of the chunks, or of the whole text of a kind without chunks. `enriched`: passages were embedded with a
    header in front. `embedded`: None while there are no vectors.
    """

    chunks: Sequence[Chunk]
    words: UnitWords
    enriched: bool = False
    embedded: Embedded | None = None


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A point in the order in which memories were committed: behind the memory `memory_id`, before all later ones.

    Storage assigns ids in the order of commits, so a reader at a cursor misses nothing that is committed later.
    """

    memory_id: int = 0

    @classmethod
    def parse(cls, name: str, value: str | int) -> "Cursor":
        """Read a cursor as `str` writes it. Raises a ValidationError that calls the value `name`."""
        return cls(parse_id(name, value))

    def __str__(self) -> str:
        return str(self.memory_id)


@dataclass(frozen=True, slots=True)
class Expendable:
    """A memory that a clean-up may delete, and the number of its chunks."""

    id: int
    chunk_count: int
