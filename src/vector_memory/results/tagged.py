"""What the tools of tagged memories answer: pydantic models whose fields are seed 004's keys."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vector_memory.results.sessions import Confidence, Omitted, Result, Source

Health = Literal["healthy", "warning", "critical"]


class StoreTaggedResult(Result):
    """Receipt of a tagged memory; `category` and `tags` are as they were stored, in their canonical forms."""

    memory_id: int
    content_preview: str = Field(description="The first 100 characters")
    category: str
    tags: list[str] = Field(default=[], description="In their canonical forms")
    rejected_tags: list[str] = Field(default=[], description="Sent, but not stored: message says why")
    created_at: str


class TaggedMemory(BaseModel):
    """A tagged memory; `content_end` is set only when the text goes on: read on from that offset."""

    model_config = ConfigDict(frozen=True)

    id: int
    content: str
    category: str
    tags: list[str]
    created_at: str
    access_count: int = Field(description="How often it was read by its id")
    content_length: int = Field(description="Characters of the whole content")
    content_end: int | None = Field(default=None, description="Set when content is cut: offset to read on from")


class FoundTagged(TaggedMemory):
    """A tagged memory in a search result: ranked by meaning and words, `similarity` is of the meaning alone.

    It is the cosine of the best passage, cut to 0-1, and `distance` is 1 - `similarity`; both None if only words were
    compared.
    """

    similarity: float | None
    distance: float | None
    sources: list[Source]


class SearchTaggedResult(Result):
    """Tagged memories, best first; `total` is how many pass the filters, `count` how many are in this answer."""

    query: str | None = None
    results: list[FoundTagged] = Field(default=[], description="Best first")
    total: int = 0
    count: int = 0
    next_offset: int | None = Field(default=None, description="Set when there is more: send it as offset")
    omitted: list[Omitted] = Field(default=[], description="What did not fit")
    confidence: Confidence | None = Field(default=None, description="low: nothing on this topic passes the filters")
    elsewhere: dict[str, int] = Field(default={}, description="If low: matches under other categories and tags")


class RecentTaggedResult(Result):
    """Tagged memories, the newest first; `total` is how many there are, `count` how many are in this answer."""

    results: list[TaggedMemory] = Field(default=[], description="Newest first")
    total: int = 0
    count: int = 0
    next_offset: int | None = Field(default=None, description="Set when there is more: send it as offset")
    omitted: list[Omitted] = Field(default=[], description="What did not fit")


class TaggedMemoryResult(Result):
    """One tagged memory."""

    memory: TaggedMemory | None = None


class TaggedStatsResult(Result):
    """How many tagged memories there are, of what, and how much room is left; the size is that of the whole file."""

    total_memories: int = 0
    memory_limit: int | None = None
    usage_percentage: float = 0.0
    categories: dict[str, int] = Field(default={}, description="How many memories each has")
    recent_week_count: int = 0
    database_size_mb: float = 0.0
    health_status: Health | None = None


class ClearResult(Result):
    """What a clean-up deleted, and how many tagged memories there are now."""

    deleted_count: int = 0
    remaining_count: int = 0


class CanonicalTagEntry(BaseModel):
    """A canonical tag; `frequency` is on how many memories it was ever stored, deleted ones included."""

    model_config = ConfigDict(frozen=True)

    tag: str
    frequency: int
    created_at: str


class TagPage(Result):
    """Base of the answers about tags; `total` also counts those that did not fit."""

    total: int = 0
    next_offset: int | None = Field(default=None, description="Set when there is more: send it as offset")


class UniqueTagsResult(TagPage):
    """The tags that stand on memories now, in the order of the alphabet."""

    tags: list[str] = Field(default=[], description="As they are stored")


class CanonicalTagsResult(TagPage):
    """The canonical tags, the most frequent first."""

    tags: list[CanonicalTagEntry] = Field(default=[], description="Most frequent first")


class TagFrequenciesResult(TagPage):
    """How often each canonical tag was used, the most frequent first."""

    frequencies: dict[str, int] = Field(default={}, description="By tag")


class TagWeightsResult(TagPage):
    """How much each canonical tag says, `1 / ln(1 + frequency)`: the most frequent, which says least, first."""

    weights: dict[str, float] = Field(default={}, description="By tag")
