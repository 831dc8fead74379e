"""The values that storage returns. Times are ISO 8601 in UTC, so that they sort as text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from vector_memory.domain import CameFrom, Chunk, Fingerprint, Scope
from vector_memory.domain.validation import parse_id
from vector_memory.errors import ValidationError

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.postings import Words

Order = Literal["newest", "oldest"]
"""Sorted by iteration, then by turn, then by time, then by id."""

CountedBy = Literal["kind", "category", "tag"]
"""A memory is counted under each of its tags."""

NamedBy = Literal["session_id", "agent_id", "task_code"]
"""A column that contains names."""

VectorsByTag = Mapping[str, "NDArray[np.float32]"]
"""The vectors of tags, by tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The fields of a memory that accompany a part of its text. `turn`: its place in the order of storing."""

    id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    title: str | None
    created_at: str
    turn: int
    came_from: CameFrom
    trust: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Origin):
    """A stored memory. `content_hash` is the full SHA-256 in hex. `expires_at`: None for never."""

    content: str
    description: str | None
    tags: list[str]
    metadata: dict[str, Any]
    content_hash: str
    updated_at: str
    accessed_at: str
    access_count: int
    chunked: bool
    chunk_count: int
    expires_at: str | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observation on a report, without its text but the `beginning` of it. `corrects`: not all of it holds."""

    id: int
    report_id: int
    agent_id: str
    created_at: str
    trust: int
    corrects: bool
    beginning: str


class Hold(NamedTuple):
    """A memory that is held back: how, since when, and the rule or the reason; if deleted, by whom, and until when."""

    memory_id: int
    held: str
    held_at: str
    held_for: str
    held_until: str | None


class Neighbour(NamedTuple):
    """A memory beside another one, with the beginning of its text."""

    memory_id: int
    beginning: str


class Neighbours(NamedTuple):
    """The memories just before and just after one in its conversation, each in the order of time."""

    before: list[Neighbour]
    after: list[Neighbour]


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a stored document, with its id and that of the memory.

    `enriched`: its passages were embedded with a header in front.
    """

    id: int
    memory_id: int
    chunk: Chunk
    enriched: bool


class ChunkOutline(NamedTuple):
    """A chunk without its text."""

    id: int
    memory_id: int
    start: int
    end: int
    headings: tuple[str, ...]


class StoredPassage(NamedTuple):
    """A passage with its vector, shape (dimensions,), and the states of its tokens, if they are kept.

    `chunk`: the position of its chunk in the document, or None.
    """

    chunk: int | None
    start: int
    end: int
    vector: "NDArray[np.float32]"
    states: bytes | None = None


class History(NamedTuple):
    """When a memory was written, last changed and last read, how often, and whether its turn follows its time."""

    created_at: str
    updated_at: str
    accessed_at: str
    access_count: int = 0
    is_dated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A session since a memory, and sessions without prompts in which agents wrote since; never `besides`.

    `since`: the turn and the time of that memory.
    """

    session_id: str
    since: tuple[int, str]
    besides: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A memory with only the `beginning` of its text. `content_bytes`: the length of the text in UTF-8."""

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
    access_count: int
    pinned: bool
    turn: int


class Size(NamedTuple):
    """The memories with a name, such as that of a session, and the bytes of their texts in UTF-8."""

    name: str | None
    memories: int
    bytes: int


class Activity(NamedTuple):
    """How many memories an agent stored in an hour. `hour`: the beginning of an ISO 8601 time, in UTC."""

    hour: str
    agent_id: str
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session in a listing. `agent_id` stored last. `agents`: the first of `agent_count` agents, sorted by name."""

    session_id: str
    agent_id: str
    agents: list[str]
    agent_count: int
    memory_count: int
    latest_activity: str
    memory_types: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCounts:
    """The statistics of a session. The times and the highest iteration are None in an empty session."""

    memory_counts: dict[str, int] = field(default_factory=dict)
    agent_counts: dict[str, int] = field(default_factory=dict)
    total_memories: int
    total_chunks: int
    without_vectors: int
    latest_iteration: int | None
    earliest_created: str | None
    latest_created: str | None


class Told(NamedTuple):
    """A recap or recall that a session's agent was given: the memories in it, and its length."""

    session_id: str
    client: str
    is_recap: bool
    tokens: int
    told_at: str
    memory_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCounts:
    """What hooks have added to the sessions of a client. `used`: recaps and recalls of which a memory was read."""

    client: str
    sessions: int
    tokens_per_session: int
    recaps: int
    recalls: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """The statistics of a whole memory. The times are None if it is empty."""

    memory_counts: dict[str, int] = field(default_factory=dict)
    recalls: list[RecallCounts] = field(default_factory=list)
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
    """A tag of the vocabulary. `frequency`: how many memories were ever stored with it; deletions do not lower it."""

    tag: str
    frequency: int
    created_at: str


class TagVectors(NamedTuple):
    """All canonical tags, oldest first, and their vectors, shape (tags, dimensions); missing vectors are zeros."""

    tags: list[str]
    vectors: "NDArray[np.float32]"

    def missing(self) -> list[str]:
        """Return the tags that have no vector."""
        return [tag for tag, present in zip(self.tags, map(any, self.vectors), strict=True) if not present]


class EmbeddedPassage(NamedTuple):
    """A passage of the memory's unit at position `unit`, as offsets in the memory's content."""

    unit: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """The passages of a memory's units, in order, and their vectors, shape (passages, dimensions).

    `states`: those of each passage's tokens, as bytes; None: none are kept.
    """

    passages: list[EmbeddedPassage]
    vectors: "NDArray[np.float32]"
    fingerprint: Fingerprint
    states: Sequence[bytes] | None = None


class Links(NamedTuple):
    """The memories on a new one's subject: evidence by id.

    `series`: the memories that it forms a series with; between these, only links with at least the evidence
    `outstanding` hold.
    """

    evidence: Mapping[int, float] = MappingProxyType({})
    series: Sequence[int] = ()
    outstanding: float = 0.0


NO_LINKS = Links()


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Everything derived from a memory's text and stored with it.

    `words`: those of the chunks, or of the whole text for a kind without chunks. `enriched`: passages were embedded
    with a header in front. `embedded`: None if there are no vectors yet. `links`: if these are the last vectors.
    """

    chunks: Sequence[Chunk]
    words: "Words"
    enriched: bool = False
    embedded: Embedded | None = None
    links: Links = NO_LINKS


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A position in the order of commits: after the memory `memory_id` and before all later ones.

    Ids ascend in the order of commits, so a reader that continues from a cursor misses nothing committed later.
    `may_fall`: it is the newest that the reader may see, which another reader's deletion may remove. `gaps`: skipped
    ids before it, whose memories may be lost.
    """

    memory_id: int = 0
    may_fall: bool = field(default=False, compare=False)
    gaps: Sequence[range] = field(default=(), compare=False)

    @classmethod
    def parse(cls, name: str, value: str | int) -> "Cursor":
        """Parse the text of a cursor. Raises a ValidationError that names the value `name`."""
        return cls(parse_id(name, value))

    def kept_of(self, known: "Cursor") -> "Cursor":
        """Return a known cursor, or if it is in a gap, the one after the last memory before it that is kept."""
        return next((Cursor(gap.start - 1) for gap in self.gaps if known.memory_id in gap), known)

    def __str__(self) -> str:
        return str(self.memory_id)


LIST_CURSOR = re.compile(r"(d?)(\d{1,18})\.(\d{1,18})\.([0-9a-f]{8})\.([ -~]{1,64})")


class ListPosition(NamedTuple):
    """The memory after which a list continues, in the list's order, whatever is stored in the meantime.

    `turn`: None if it must be looked up. Cursors do not contain it: a dated memory has the turn of an earlier one,
    which may be hidden from a limited token. All others have their own id.
    """

    session_iter: int
    turn: int | None
    created_at: str
    id: int

    @classmethod
    def parse(cls, cursor: str, listing: str) -> Self:
        """Return the position of a list's cursor. Raises ValidationError for another list's cursor, or none."""
        match = LIST_CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
        if match is None:
            raise ValidationError("cursor must be the next_cursor of an answer: leave it out to begin with the first.")
        dated, session_iter, number, of, created_at = match.groups()
        if of != listing:
            raise ValidationError("This cursor is from a list with other filters or another order: send the same ones.")
        return cls(int(session_iter), None if dated else int(number), created_at.replace(",", "."), int(number))


def cursor_after(memory: Memory, listing: str) -> str:
    """Return the cursor of a list after a memory, for `ListPosition.parse`."""
    dated = "" if memory.turn == memory.id else "d"
    # With a comma, as ISO 8601 allows: answers have no other fractions of a second.
    return f"{dated}{memory.session_iter}.{memory.id}.{listing}.{memory.created_at.replace('.', ',')}"


def listing_of(scope: Scope, order: Order) -> str:
    """Return eight digits that distinguish a list from those with other filters or another order."""
    described = json.dumps([scope.as_filters(), order], sort_keys=True)
    return blake2b(described.encode(errors="replace"), digest_size=4).hexdigest()


class Lease(NamedTuple):
    """The right to compute the vectors of memories, held by `owner` until the time `until`, in seconds since 1970.

    Whoever needs longer renews it.
    """

    owner: str
    until: float


RECENT_SECONDS = 600.0
"""Vectors promised longer ago say nothing about the current speed."""


class Pending(NamedTuple):
    """Memories whose vectors somebody is computing: how many, and how many bytes their texts have.

    `last_id`: the highest of their ids. `seconds`: since the oldest recent promise, negative if the clock was set back;
    None: none is recent.
    """

    memories: int = 0
    size: int = 0
    last_id: int | None = None
    seconds: float | None = None


class Link(NamedTuple):
    """A newer memory on the subject of an older one, with the `evidence` for it."""

    older_id: int
    newer_id: int
    evidence: float


class Later(NamedTuple):
    """A newer memory on the subject of an older one, with the beginning of its text. `evidence`: says so."""

    older_id: int
    evidence: float
    id: int
    title: str | None
    agent_id: str
    created_at: str
    beginning: str


class Expendable(NamedTuple):
    """A memory that a clean-up may delete, with its number of chunks."""

    id: int
    chunk_count: int


class Derivation(NamedTuple):
    """How a memory came, and the report that it is about."""

    id: int
    came_from: dict[str, Any]
    about: int | None


class Imprint(NamedTuple):
    """The hash of a memory's text, and its origin."""

    id: int
    content_hash: str
    metadata: dict[str, Any]


class LastIds(NamedTuple):
    """The highest ids ever assigned to a memory and to a chunk."""

    memory: int
    chunk: int
