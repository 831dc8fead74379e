"""The tools of tagged memories."""

from functools import partial
from typing import Annotated

from fastmcp import Context
from fastmcp.tools import tool
from mcp_types import InputRequiredResult
from pydantic import Field

from vector_memory.answers import tagged as answers
from vector_memory.answers.documents import DeleteResult
from vector_memory.domain import MAX_NOTES, Page, Window
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_NOTE
from vector_memory.server.conversation import client_of
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools import params
from vector_memory.server.tools.confirmation import confirm
from vector_memory.server.tools.searching import traced
from vector_memory.server.turns import in_writers_thread, stored
from vector_memory.tagged.tags import CATEGORIES, MAX_TAGS_PER_NOTE

Limit = Annotated[params.WholeNumber, Field(description=f"Maximum results, up to {MAX_NOTES}")]
Tags = Annotated[
    list[str] | None,
    Field(description=f"Up to {MAX_TAGS_PER_NOTE}: subjects, or prefix:value such as module:billing", fail_fast=True),
    params.FromJson,
]
AnyOfTags = Annotated[list[str] | None, Field(description="Any of these", fail_fast=True), params.FromJson]


@tool(
    title="Store tagged note",
    annotations=params.STORES,
    meta=params.found_by("remember this, save memory, note, lesson", always=True),
)
async def store_memory(
    *,
    store: params.Store,
    came_from: params.CurrentWay,
    content: Annotated[str, Field(description=f"What, why, when to use it, gotchas; up to {MAX_NOTE} characters")],
    category: Annotated[str | None, Field(description=f"{', '.join(CATEGORIES)}; default other")] = None,
    tags: Tags = None,
    supersedes: params.Supersedes = None,
    ttl_days: params.TtlDays = None,
) -> answers.StoreTaggedResult:
    """Tagged note: store a lesson for all sessions and agents. Search first to avoid storing it twice."""
    store_note = partial(store.tagged.store, ttl_days=ttl_days, came_from=came_from)
    return await stored(store, store_note, content, category, tags, supersedes)


@tool(
    title="Search tagged notes",
    annotations=params.READS,
    meta=params.found_by("recall, search memory, find note, lesson", always=True),
)
def search_memories(
    *,
    store: params.Store,
    query: params.Query,
    limit: Limit = 10,
    category: Annotated[str | None, Field(description="Only this category")] = None,
    tags: AnyOfTags = None,
    created_after: params.CreatedAfter = None,
    created_before: params.CreatedBefore = None,
    as_of: params.AsOf = None,
    prefer: params.Prefer = None,
    offset: params.Skip = 0,
    explain: params.Explain = None,
) -> answers.SearchTaggedResult:
    """Tagged notes: find them by meaning and words. Several short, different queries find more than one broad query.

    If a question names a time ("last week"), send its dates as created_after and created_before.
    """
    page = Page.of_notes(limit, offset, prefer)
    window = Window(created_after=created_after, created_before=created_before, as_of=as_of)
    filters = store.tagged.filters(category, tags, **window)
    search = partial(store.tagged.find, query, filters)
    return traced(store, search, query, filters.scope, page, explain)


@tool(
    title="List recent tagged notes",
    annotations=params.READS,
    meta=params.found_by("recall, latest notes, what did we do last time, continue where we left off"),
)
def list_recent_memories(
    *,
    store: params.Store,
    limit: Limit = 10,
    created_after: params.CreatedAfter = None,
    created_before: params.CreatedBefore = None,
    as_of: params.AsOf = None,
    offset: params.Skip = 0,
    cursor: params.After = None,
) -> answers.RecentTaggedResult:
    """Tagged notes: read the most recent ones, newest first."""
    window = Window(created_after=created_after, created_before=created_before, as_of=as_of)
    return store.tagged.list_recent(limit, offset, cursor=cursor, **window)


@tool(title="Get tagged note by id", annotations=params.READS)
def get_by_memory_id(
    *, store: params.Store, memory_id: params.MemoryId, offset: params.Offset = 0
) -> answers.TaggedMemoryResult:
    """Tagged note: read one by id and count it as used. A cleanup deletes the least used notes first."""
    return store.tagged.get(memory_id, offset)


@tool(title="Delete tagged note", annotations=params.DELETES)
async def delete_by_memory_id(
    *, store: params.Store, context: Context, memory_id: params.MemoryId
) -> DeleteResult | InputRequiredResult:
    """Tagged note: delete one; only a person may be able to undo it, for a time. Tag frequencies do not change."""
    if asked := await confirm(context, partial(store.tagged.describe, memory_id)):
        return asked
    return await in_writers_thread(store.tagged.delete, memory_id, by=client_of(context))


@tool(title="Get tagged note statistics", annotations=params.READS)
def get_memory_stats(*, store: params.Store) -> answers.TaggedStatsResult:
    """Tagged notes: count them by category and show how many more can be stored."""
    return store.tagged.stats()


@tool(title="Clear old tagged notes", annotations=params.CLEANS_UP)
async def clear_old_memories(
    *,
    store: params.Store,
    context: Context,
    days_old: Annotated[params.WholeNumber, Field(description="Minimum age in days")] = 30,
    max_to_keep: Annotated[params.WholeNumber, Field(description="Number of memories to keep")] = 1000,
) -> answers.ClearResult | InputRequiredResult:
    """Tagged notes: delete old ones, least used first, until max_to_keep are left."""
    if asked := await confirm(context, partial(_least_used, store, days_old, max_to_keep)):
        return asked
    return await in_writers_thread(store.tagged.clear, days_old, max_to_keep, by=client_of(context))


@tool(title="Get unique tags", annotations=params.READS)
def get_unique_tags(*, store: params.Store, offset: params.Skip = 0) -> answers.UniqueTagsResult:
    """Tagged notes: list their tags."""
    return store.tags.unique(offset)


@tool(title="Get canonical tags", annotations=params.READS)
def get_canonical_tags(*, store: params.Store, offset: params.Skip = 0) -> answers.CanonicalTagsResult:
    """Tagged notes: list all canonical tags, which other forms are normalized to, with their frequencies."""
    return store.tags.canonical(offset)


@tool(title="Get tag frequencies", annotations=params.READS)
def get_tag_frequencies(*, store: params.Store, offset: params.Skip = 0) -> answers.TagFrequenciesResult:
    """Tagged notes: count those stored with each canonical tag."""
    return store.tags.frequencies(offset)


@tool(title="Get tag weights", annotations=params.READS)
def get_tag_weights(*, store: params.Store, offset: params.Skip = 0) -> answers.TagWeightsResult:
    """Tagged notes: weight each canonical tag for ranking; rare tags weigh more."""
    return store.tags.weights(offset)


def _least_used(store: SessionMemoryStore, days_old: int, max_to_keep: int) -> str:
    found = store.tagged.clear(days_old, max_to_keep, dry_run=True)
    memories, days = counted(found.deleted_count, "memory", "memories"), counted(days_old, "day")
    return f"{memories} older than {days}, least used first, and keep {found.remaining_count:,}"
