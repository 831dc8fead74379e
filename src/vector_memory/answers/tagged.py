"""Results of the tools for tagged memories: pydantic models whose fields are the keys of the contract."""

from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from vector_memory.answers import models
from vector_memory.domain import MatchLevel

Health = Literal["healthy", "warning", "critical"]


class StoreTaggedResult(models.Result):
    """Receipt of a tagged memory. `category` and `tags` are as stored, in canonical form."""

    memory_id: int
    content_preview: str = Field(description="The first 100 characters")
    category: str
    tags: list[str] = Field(default=[], description="In canonical form")
    rejected_tags: list[str] = Field(default=[], description="Not stored: message gives the reason")
    redacted: int = models.unless_zero(models.REDACTED)
    created_at: models.Time
    expires_at: models.Time | None = models.unless_empty()


class TaggedMemory(models.Succession, models.Came):
    """A tagged memory. `content_end` is set if the content is cut: read on from that offset."""

    id: int
    content: str
    category: str
    tags: list[str]
    created_at: models.Time
    access_count: int = Field(description="Number of times it was read by id")
    content_length: int = Field(description="Length of the whole content in characters")
    content_end: int | None = models.unless_empty(description="Set if content is cut: offset to read on from")
    expires_at: models.Time | None = models.unless_empty()
    pinned: bool | None = models.unless_empty()


class FoundTagged(models.Ranked, TaggedMemory):
    """A tagged memory in a search result, ranked by meaning and words together.

    `similarity` is the cosine of the best passage, clipped to 0-1, and `distance` is 1 - `similarity`; both are None
    if only words were compared.
    """

    score: models.Score = Field(description=models.SCORE)
    similarity: models.Share | None
    distance: models.Share | None
    sources: list[models.Source] = models.unless_both()


class SearchTaggedResult(models.RankedResult):
    """Tagged memories, best first. `total` counts those that pass the filters, `count` those in this answer."""

    query: str | None = None
    results: list[FoundTagged] = Field(default=[], description="Best first")
    total: int = 0
    count: int = 0
    elsewhere: dict[str, int] = models.unless_empty(
        {}, "If nothing is strong: strong matches with other categories and tags"
    )


class RecentTaggedResult(models.Result):
    """Tagged memories, newest first. `total` counts all of them, `count` those in this answer."""

    results: list[TaggedMemory] = Field(default=[], description="Newest first")
    total: int = 0
    count: int = 0
    superseded: int = models.unless_zero(models.SUPERSEDED)
    next_offset: int | None = models.unless_empty(description="Set if there is more: send it as offset")
    next_cursor: str | None = models.unless_empty(description=models.NEXT_CURSOR)
    omitted: list[models.Omitted] = models.unless_empty([], "Results that did not fit")


class TaggedMemoryResult(models.Result):
    """One tagged memory."""

    memory: TaggedMemory | None = None


class TaggedStatsResult(models.Result):
    """Counts of the tagged memories, and the remaining capacity. The size is that of the whole file."""

    total_memories: int = 0
    memory_limit: int | None = None
    usage_percentage: float = 0.0
    categories: dict[str, int] = Field(default={}, description="Number of memories in each category")
    recent_week_count: int = 0
    database_size_mb: float = 0.0
    health_status: Health | None = None


class ClearResult(models.Result):
    """What a cleanup deleted, and how many tagged memories are left."""

    deleted_count: int = 0
    remaining_count: int = 0


class CanonicalTagEntry(models.Value):
    """A canonical tag. `frequency` counts the memories ever stored with it, including deleted ones."""

    tag: str
    frequency: int
    created_at: models.Time


class TagPage(models.Result):
    """Base of the results about tags. `total` also counts those that did not fit."""

    total: int = 0
    next_offset: int | None = models.unless_empty(description="Set if there is more: send it as offset")


class UniqueTagsResult(TagPage):
    """The tags of the stored memories, in alphabetical order."""

    tags: list[str] = Field(default=[], description="As stored")


class CanonicalTagsResult(TagPage):
    """The canonical tags, most frequent first."""

    tags: list[CanonicalTagEntry] = Field(default=[], description="Most frequent first")


class TagFrequenciesResult(TagPage):
    """How often each canonical tag was used, most frequent first."""

    frequencies: dict[str, int] = Field(default={}, description="By tag")


class TagWeightsResult(TagPage):
    """The weight of each canonical tag, `1 / ln(1 + frequency)`: the most frequent, which weighs least, first."""

    weights: dict[str, float] = Field(default={}, description="By tag")


# Results of the tools for Markdown files. Keys are in camel case, as in the specification.


class FileResult(models.Result):
    """Base of the results."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class FoundText(models.Value):
    """A passage of a file that matched. `score`, from 0 to 1, combines meaning and words."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    path: str
    text: str
    score: models.Score = Field(description=models.SCORE)
    match: MatchLevel | None = models.unless_empty(description=models.MATCH)
    start_line: int = Field(description="Starts at 1")
    end_line: int = Field(description="Last line of text")


class FileSearchResult(FileResult):
    """Passages of files, best first."""

    results: list[FoundText] = Field(default=[])
    index_complete: bool | None = Field(default=None, description="false: some files or vectors are not indexed yet")
    trace: dict[str, Any] | None = models.unless_empty(description="If explain was sent: how candidates were measured")


class FileTextResult(FileResult):
    """Lines of a file."""

    path: str
    content: str
    total_lines: int
    start_line: int
    end_line: int
    next_line: int | None = Field(default=None, description="Set if content is cut: send it as startLine")
    next_offset: int | None = Field(default=None, description="Set if a line is cut: send it as offset")


class FileWriteResult(FileResult):
    """The file that an entry was appended to."""

    path: str


class FileStatusResult(FileResult):
    """The state of the index."""

    files: int | None = None
    chunks: int | None = None
    last_indexed: models.Time | None = None
    model: str | None = None
    dimensions: int | None = None
    db_size_bytes: int | None = None
    vector_enabled: bool | None = Field(default=None, description="false: searches compare words only")
    fts_enabled: bool | None = None
    indexing: bool | None = Field(default=None, description="Indexing is in progress")
    files_done: int | None = Field(default=None, description="Changed files in this round")
    files_total: int | None = None
    chunks_without_vectors: int | None = Field(default=None, description="Files or passages found by words only")
    watching: bool | None = Field(default=None, description="false: each search checks for changes")
