"""Results that count and list: sessions, timelines, statistics, cleanups."""

from pydantic import Field

from vector_memory.answers import models
from vector_memory.storage.records import RecallCounts


class Counts(models.Result):
    """Counts of memories. `without_vectors`: those found only by words so far."""

    memory_counts: dict[str, int] = Field(default={})
    total_memories: int = 0
    total_chunks: int = 0
    without_vectors: int = 0
    earliest_created: models.Time | None = None
    latest_created: models.Time | None = None


class SessionStatsResult(Counts):
    """Counts of a session's memories."""

    session_id: str
    agent_counts: dict[str, int] = Field(default={})
    latest_iteration: int | None = None


class TimelineEntry(models.Provenance, models.Succession):
    """A memory in a timeline. `beginning` is the first words of its content."""

    memory_id: int
    beginning: str
    content_length: int
    chunk_count: int
    access_count: int = models.unless_zero("How often agents have read it")
    pinned: bool = Field(default=False, exclude_if=lambda is_pinned: not is_pinned)


class TimelineResult(models.Result):
    """Memories, oldest first. `total_memories` also counts those beyond the limit."""

    entries: list[TimelineEntry] = Field(default=[])
    total_memories: int = 0
    superseded: int = models.unless_zero(models.SUPERSEDED)


class VerifiedLine(models.EvidenceNote):
    """Evidence that no longer holds."""

    memory_id: int


class VerifyResult(models.Result):
    """What no longer holds of the evidence of memories. `counts`: of each state."""

    lines: list[VerifiedLine] = Field(default=[])
    counts: dict[str, int] = Field(default={})


class ReviewedMemory(models.Value):
    """A memory in a review. `content` is its first words."""

    id: int
    memory_type: str
    title: str | None = models.unless_empty()
    agent_id: str
    session_id: str | None = models.unless_empty()
    created_at: models.Time
    content: str


class ReviewLine(ReviewedMemory):
    """A memory to look at: one with a later one on its subject, or an old one that was never read."""

    later: ReviewedMemory | None = models.unless_empty(
        description="The last memory on its subject: it may replace this one"
    )
    differences: list[str] = models.unless_empty([], "What the later one has in place of this one's values")
    is_repeated: bool = models.unless_empty(
        default=False, description="Whether the later one says all that this one says"
    )


class HeldLine(ReviewedMemory):
    """A memory that is held back, for people only: how (`held`), since when, and the rule or the reason.

    If an agent has deleted it: which, and until when a person can undo that.
    """

    held: str
    held_at: models.Time
    held_for: str
    held_until: models.Time | None = models.unless_empty()


class ReviewResult(models.Result):
    """What to check in a memory, likely contradictions first. `total` also counts lines that are not shown."""

    lines: list[ReviewLine] = Field(default=[])
    total: int = 0
    pending: int = models.unless_zero(models.PENDING)


class PeoplesReview(ReviewResult):
    """A review with the memories that are held back, and what changed, by the id of the earlier memory.

    That are two sentences in pieces, each with what is in its place in the other one: the same, or something else.
    """

    held: list[HeldLine] = models.unless_empty([])
    changed: dict[int, list[tuple[str, str]]] = models.unless_empty({})


class ActiveHour(models.Value):
    """How many memories an agent stored in an hour, such as 2026-11-27T21, in UTC."""

    hour: str
    agent_id: str
    memories: int


class ActivityResult(models.Result):
    """Who stored how much and when, by hour and agent; hours and agents without memories are left out."""

    hours: list[ActiveHour] = Field(default=[])


class MemoryStatsResult(Counts):
    """Counts of the whole file. `embedding_model` is the model that computed its vectors.

    `pending_vectors`: number of memories whose vectors are being computed now. `recalls`: by client.
    """

    total_sessions: int = 0
    total_agents: int = 0
    pending_vectors: int = 0
    recalls: list[RecallCounts] = Field(default=[])
    embedding_model: str | None = None
    database_bytes: int = 0


class SessionEntry(models.Value):
    """A session. `agent_id` stored last, `agents` are the first agents by name, `agent_count` counts all of them."""

    session_id: str
    agent_id: str
    agents: list[str]
    agent_count: int
    memory_count: int
    latest_activity: models.Time
    memory_types: dict[str, int]


class SessionsResult(models.Result):
    """Sessions, latest activity first. `total_sessions` also counts those beyond the limit."""

    sessions: list[SessionEntry] = Field(default=[])
    total_sessions: int = 0


class CleanupResult(models.Result):
    """What was deleted or, in a dry run, would be."""

    memories_deleted: int = 0
    chunks_deleted: int = 0
    memories_kept: int = Field(default=0, description="Old, but they supersede or correct memories that stay")
    dry_run: bool


class PolicyResult(CleanupResult):
    """What policies have deleted or, in a dry run, would. `by_rule`: memories that each rule deletes."""

    by_rule: dict[str, int] = Field(default={})


class BackfillResult(models.Result):
    """Counts of a backfill."""

    memories_processed: int = 0
    chunks_processed: int = 0
    memories_remaining: int = 0


class SearchStatistics(models.Value):
    """Latencies of this process's most recent searches, in seconds."""

    total_queries: int
    p50_time: float
    p95_time: float
    p99_time: float
    slow_queries: int
    slow_query_rate: float
    slow_query_threshold: float
    by_type: dict[str, int]
