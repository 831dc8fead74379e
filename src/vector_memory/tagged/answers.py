"""How stored notes, results and statistics are shown, and what is said about them."""

from collections.abc import Mapping, Sequence

from vector_memory.results.sessions import FoundMemory, MemoryEntry
from vector_memory.results.tagged import FoundTagged, Health, StoreTaggedResult, TaggedMemory
from vector_memory.sessions.writer import Saved
from vector_memory.tagged.categories import CATEGORIES, OTHER
from vector_memory.tagged.tags import Refused

PREVIEW = 100

NEARLY_FULL, ALMOST_FULL = 80.0, 95.0
"""Percentages from which on the health is a warning, and critical."""


def receipt(saved: Saved, forms: Mapping[str, str], refused: Sequence[Refused], doubt: str | None) -> StoreTaggedResult:
    """Say what was stored, in which form, and what was not."""
    memory = saved.memory
    said = [f"Stored memory {saved.id}: {len(memory.content):,} characters."]
    if doubt:
        said.append(doubt)
    said += said_of_forms(forms)
    said += [f'Not stored is the tag "{tag}": {why}.' for tag, why in refused]
    if saved.problem:
        said.append(f"Not yet searchable by meaning. {saved.problem}")
    return StoreTaggedResult(
        message=" ".join(said),
        memory_id=saved.id,
        content_preview=memory.content[:PREVIEW],
        category=memory.metadata["category"],
        tags=list(memory.tags),
        rejected_tags=[tag for tag, _ in refused],
        created_at=saved.created_at,
    )


def said_of_forms(forms: Mapping[str, str]) -> list[str]:
    """Say which tags were taken for others."""
    return [f'The tag "{tag}" counts as "{form}".' for tag, form in forms.items() if tag != form]


def tagged(memory: MemoryEntry) -> TaggedMemory:
    """Return a memory as this family's answers show it."""
    return TaggedMemory(
        category=shown_category(memory.metadata.get("category")),
        **memory.model_dump(
            include={"id", "content", "tags", "created_at", "access_count", "content_length", "content_end"}
        ),
    )


def shown_category(stored: object) -> str:
    """Return the category to show for what is stored as one, which in an imported memory may be anything."""
    return next((category for category in CATEGORIES if category == stored), OTHER)


def found_tagged(memory: FoundMemory) -> FoundTagged:
    """Return a search result as this family's answers show it."""
    similarity = memory.similarity
    return FoundTagged(
        **tagged(memory).model_dump(),
        score=memory.score or 0.0,
        similarity=similarity,
        distance=None if similarity is None else 1 - similarity,
        sources=memory.sources,
    )


def health_of(usage: float, unindexed: int) -> Health:
    """Return the health of a memory that is so full, in per cent, and has so many notes without vectors."""
    if usage >= ALMOST_FULL:
        return "critical"
    return "warning" if usage >= NEARLY_FULL or unindexed else "healthy"


def said_of_health(health: Health, usage: float, unindexed: int) -> str | None:
    """Say what is to be done about the health, if something is."""
    said = []
    if usage >= NEARLY_FULL:
        said.append("Nearly full: run clear_old_memories, or raise VECTOR_MEMORY_MEMORY_LIMIT.")
    if unindexed:
        said.append(f"{unindexed:,} without vectors can be found by words only: run `vector-memory backfill`.")
    return " ".join(said) if health != "healthy" else None


def said_of_clearing(deleted: int, left: int, days_old: int, max_to_keep: int) -> str:
    """Say what a clean-up did, and why it did no more."""
    said = f"{deleted:,} deleted, {left:,} kept."
    if left > max_to_keep:
        return f"{said} The others are newer than days_old ({days_old:,}): send a smaller one to delete more."
    if not deleted:
        return f"{said} There are no more than max_to_keep: send a smaller max_to_keep to delete some."
    return said
