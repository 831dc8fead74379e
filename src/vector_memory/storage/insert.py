"""What every engine stores with a new memory."""

from typing import Any

from vector_memory.domain import TRAITS, NewMemory
from vector_memory.storage.postings import Words
from vector_memory.storage.records import Derived, History, Memory


def as_stored(memory_id: int, new: NewMemory, content_hash: str, history: History, chunk_count: int) -> Memory:
    """Return a new memory as it will be stored, but for the turn of a dated one, which only the engine knows."""
    return Memory(
        id=memory_id,
        memory_type=str(new.kind),
        agent_id=new.agent_id,
        session_id=new.session_id,
        session_iter=new.session_iter,
        task_code=new.task_code,
        content=new.content,
        title=new.title,
        description=new.description,
        tags=list(new.tags),
        metadata=new.metadata,
        content_hash=content_hash,
        chunked=TRAITS[new.kind].chunked,
        chunk_count=chunk_count,
        created_at=history.created_at,
        updated_at=history.updated_at,
        accessed_at=history.accessed_at,
        access_count=history.access_count,
        turn=memory_id,
    )


def words_in(derived: Derived) -> Words:
    """Return the words, which must come from `prepare_words` of the engine."""
    if not isinstance(derived.words, Words):
        raise TypeError("The words of a memory must come from prepare_words of the same storage")
    return derived.words


def place_of(memory: NewMemory, content_hash: str) -> dict[str, Any]:
    """Return where a memory belongs, and the hash of its text: the same text in the same place is a duplicate."""
    return {
        "content_hash": content_hash,
        "kind": str(memory.kind),
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "session_iter": memory.session_iter,
        "task_code": memory.task_code,
    }
