"""Converts stored memories to results."""

from collections.abc import Sequence
from typing import Any

from vector_memory.results.sessions import FoundMemory, MemoryEntry, Source
from vector_memory.storage.records import Memory, Origin

HASH_SHOWN = 16
"""Hex digits of the content's SHA-256 in results."""


READ_WITH = "get_memory_by_id"


def said_of_cut(entries: Sequence[MemoryEntry], read_with: str = READ_WITH) -> str:
    """Return a sentence that says how to read memories whose content is cut; empty if none is."""
    count = sum(entry.content_end is not None for entry in entries)
    return f" {count} shortened to fit: read on with {read_with} and offset = content_end." if count else ""


def memory_entry(memory: Memory) -> MemoryEntry:
    """Return a memory as an entry of a result."""
    return MemoryEntry(**shown(memory))


def found_memory(memory: Memory) -> FoundMemory:
    """Return a memory as a search result that was matched by filters only."""
    return FoundMemory(**shown(memory))


def matched_memory(memory: Memory, similarity: float | None, sources: Sequence[Source]) -> FoundMemory:
    """Return a memory as a ranked search result; without a similarity it was ranked by words only."""
    return FoundMemory(
        **shown(memory),
        similarity=similarity,
        source_type="keyword" if similarity is None else "vector",
        sources=list(sources),
    )


def shown(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that results contain."""
    return {
        "id": memory.id,
        "memory_type": memory.memory_type,
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "session_iter": memory.session_iter,
        "task_code": memory.task_code,
        "content": memory.content,
        "title": memory.title,
        "description": memory.description,
        "tags": memory.tags,
        "metadata": memory.metadata,
        "content_hash": memory.content_hash[:HASH_SHOWN],
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "accessed_at": memory.accessed_at,
        "access_count": memory.access_count,
        "content_length": len(memory.content),
    }


def provenance(source: Memory | Origin) -> dict[str, Any]:
    """Return the fields that say where a found text comes from."""
    return {
        "memory_type": source.memory_type,
        "agent_id": source.agent_id,
        "session_id": source.session_id,
        "session_iter": source.session_iter,
        "task_code": source.task_code,
        "title": source.title,
        "created_at": source.created_at,
    }
