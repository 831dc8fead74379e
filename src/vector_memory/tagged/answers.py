"""Results of the tagged family: notes, receipts, and the messages about them."""

from collections.abc import Mapping, Sequence

from vector_memory.domain.text import counted
from vector_memory.results.sessions import FoundMemory, MemoryEntry
from vector_memory.results.tagged import FoundTagged, Health, StoreTaggedResult, TaggedMemory
from vector_memory.sessions.writer import StoredMemory, supersedes_message
from vector_memory.storage.records import Memory
from vector_memory.tagged.tags import CATEGORIES, OTHER, RefusedTag

PREVIEW_LENGTH = 100

WARNING_USAGE, CRITICAL_USAGE = 80.0, 95.0
"""Percentages of the limit from which the health is "warning" and "critical"."""


def tagged_receipt(
    stored: StoredMemory, forms: Mapping[str, str], refused: Sequence[RefusedTag], doubt: str | None
) -> StoreTaggedResult:
    """Return what was stored, under which category and tags, and which tags were refused."""
    memory = stored.memory
    messages = [f"Stored memory {stored.id}: {counted(len(memory.content), 'character')}."]
    if memory.supersedes:
        messages.append(supersedes_message(memory))
    if doubt:
        messages.append(f"Stored as {OTHER}: {doubt}")
    messages += tags_messages(forms, refused)
    if stored.problem:
        messages.append(f"Not yet searchable by meaning. {stored.problem}")
    return StoreTaggedResult(
        message=" ".join(messages),
        memory_id=stored.id,
        content_preview=memory.content[:PREVIEW_LENGTH],
        category=memory.metadata["category"],
        tags=list(memory.tags),
        rejected_tags=[tag for tag, _ in refused],
        redacted=stored.redacted,
        created_at=stored.created_at,
        expires_at=memory.expires_at,
    )


def tagged_again(
    note: Memory, tags: Sequence[str], forms: Mapping[str, str], refused: Sequence[RefusedTag]
) -> StoreTaggedResult:
    """Return a note that was stored before, with the tags that it has now."""
    added = ", ".join(tag for tag in tags if tag not in note.tags)
    said = f"Memory {note.id} has this content already. Added tags: {added}."
    return StoreTaggedResult(
        message=" ".join([said, *tags_messages(forms, refused)]),
        memory_id=note.id,
        content_preview=note.content[:PREVIEW_LENGTH],
        category=shown_category(note.metadata.get("category")),
        tags=list(tags),
        rejected_tags=[tag for tag, _ in refused],
        created_at=note.created_at,
    )


def tags_messages(forms: Mapping[str, str], refused: Sequence[RefusedTag]) -> list[str]:
    """Say which tags were replaced or refused, and why."""
    return merged_tags_messages(forms) + [f'The tag "{tag}" was not stored: {reason}.' for tag, reason in refused]


def merged_tags_messages(forms: Mapping[str, str]) -> list[str]:
    """Say which tags were replaced by their canonical form."""
    return [f'The tag "{tag}" counts as "{form}".' for tag, form in forms.items() if tag != form]


def tagged(memory: MemoryEntry) -> TaggedMemory:
    """Return a memory as the results of this family show it."""
    return TaggedMemory(
        category=shown_category(memory.metadata.get("category")),
        **memory.model_dump(include=TaggedMemory.model_fields.keys() - {"category"}),
    )


def shown_category(stored: object) -> str:
    """Return the category to show for a stored value, which may be anything in an imported memory."""
    return next((category for category in CATEGORIES if category == stored), OTHER)


def found_tagged(memory: FoundMemory) -> FoundTagged:
    """Return a search result as the results of this family show it."""
    return FoundTagged(
        **tagged(memory).model_dump(),
        score=memory.score or 0.0,
        match=memory.match,
        later=memory.later,
        later_more=memory.later_more,
        copies=memory.copies,
        similarity=memory.similarity,
        distance=None if memory.similarity is None else 1 - memory.similarity,
        sources=memory.sources,
    )


def health_of(usage: float, unindexed: int) -> Health:
    """Return the health for a usage in per cent of the limit and a number of notes without vectors."""
    if usage >= CRITICAL_USAGE:
        return "critical"
    return "warning" if usage >= WARNING_USAGE or unindexed else "healthy"


def health_message(health: Health, usage: float, unindexed: int) -> str | None:
    """Say what to do about the health; None if nothing needs to be done."""
    messages = []
    if usage >= WARNING_USAGE:
        messages.append("Nearly full: run clear_old_memories, or raise VECTOR_MEMORY_MEMORY_LIMIT.")
    if unindexed:
        messages.append(f"{unindexed:,} without vectors can be found by words only: run `vector-memory backfill`.")
    return " ".join(messages) if health != "healthy" else None


def clearing_message(deleted: int, left: int, days_old: int, max_to_keep: int) -> str:
    """Say what a clean-up deleted, and why it did not delete more."""
    message = f"{deleted:,} deleted, {left:,} kept."
    if left > max_to_keep:
        return (
            f"{message} The others are newer than days_old ({days_old:,}), pinned, or supersede what stays: "
            "send a smaller days_old to delete more."
        )
    if not deleted:
        return f"{message} There are no more than max_to_keep: send a smaller max_to_keep to delete some."
    return message
