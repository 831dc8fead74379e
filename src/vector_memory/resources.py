"""What a client can read without calling a tool: the sessions, one session, one memory, and latencies.

A memory's text comes as it was stored, with its provenance in front: whoever reads it can tell it from instructions.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fastmcp import FastMCP
from fastmcp.resources import Resource, ResourceTemplate
from pydantic import BaseModel

from vector_memory.documents import front_matter
from vector_memory.errors import NotFoundError
from vector_memory.packing import Packer
from vector_memory.results import Result, SessionEntry, TimelineEntry
from vector_memory.session_memory_store import SessionMemoryStore
from vector_memory.tools.failures import protocol_errors
from vector_memory.tools.params import Store
from vector_memory.values import MAX_LIMIT, Scope, parse_id

JSON, MARKDOWN = "application/json", "text/markdown"

SESSIONS = "memory://sessions"
SESSION = f"{SESSIONS}/{{session_id}}"
MEMORY = "memory://memories/{memory_id}{?offset}"
STATISTICS = "memory://stats/search"

NOT_SHOWN = {"content", "content_hash", "updated_at", "accessed_at", "access_count"}
"""Fields of a memory that do not stand in front of its text."""


class SessionLink(SessionEntry):
    """A session and where to read it."""

    uri: str


class MemoryLink(TimelineEntry):
    """A memory's beginning and where to read it."""

    uri: str


def add_resources(server: FastMCP) -> None:
    """Give a server the resources of its store."""
    server.add_resource(Resource.from_function(sessions, SESSIONS, title="Sessions", mime_type=JSON))
    server.add_resource(Resource.from_function(statistics, STATISTICS, title="Search statistics", mime_type=JSON))
    server.add_template(
        # The screening is for paths; a session's name may look like one, and never becomes one.
        ResourceTemplate.from_function(session, SESSION, title="Session", mime_type=JSON, security=None)
    )
    server.add_template(ResourceTemplate.from_function(memory, MEMORY, title="Memory", mime_type=MARKDOWN))


def sessions(store: Store) -> str:
    """List the sessions, latest activity first, each with the URI to read it with."""
    with protocol_errors(SESSIONS):
        found = store.list_sessions(MAX_LIMIT)
    listed = [SessionLink(**entry.model_dump(), uri=session_uri(entry.session_id)) for entry in found.sessions]
    return as_json({"total_sessions": found.total_sessions, "sessions": fitting(store, listed)})


def session(store: Store, session_id: str) -> str:
    """Read what a session holds: counts, and what was stored last, the newest first, each with its URI."""
    with protocol_errors(SESSION):
        return as_json(overview(store, session_id, MAX_LIMIT))


def memory(store: Store, memory_id: str, offset: str = "0") -> str:
    """Read a memory: its provenance, then its text from character `offset` on, as far as it fits."""
    with protocol_errors(MEMORY):
        found = store.get_memory_by_id(memory_id, parse_id("offset", offset)).memory
    assert found is not None, "or an error would have been raised"  # noqa: S101
    facts = found.model_dump(exclude=NOT_SHOWN)
    if found.content_end is not None:
        facts["read_on"] = f"{memory_uri(found.id)}?offset={found.content_end}"
    return front_matter(facts) + found.content


def statistics(store: Store) -> str:
    """Latencies of this process's latest searches, in seconds."""
    with protocol_errors(STATISTICS):
        return store.get_search_statistics().model_dump_json()


def overview(store: SessionMemoryStore, session_id: str, limit: int) -> dict[str, Any]:
    """Return what a session holds: counts, and the beginnings of up to so many memories, the newest first.

    Raises NotFoundError if nothing is stored in it.
    """
    counts = store.get_session_stats(session_id)
    if not counts.total_memories:
        raise NotFoundError(f"Nothing is stored in this session: read {SESSIONS} for those there are.")
    latest = store.get_timeline(Scope(session_id=session_id), limit).entries[::-1]
    listed = [MemoryLink(**entry.model_dump(), uri=memory_uri(entry.memory_id)) for entry in latest]
    return counts.model_dump(exclude={*Result.model_fields}) | {"latest_memories": fitting(store, listed)}


def fitting(store: SessionMemoryStore, entries: Sequence[BaseModel]) -> list[dict[str, Any]]:
    """Return as many of the entries, the first ones first, as an answer may hold."""
    return [entry.model_dump() for entry in Packer(store.settings.max_response_tokens).fitting(entries)]


def session_uri(session_id: str) -> str:
    """Return where a session can be read. Any character may be in its id."""
    return f"{SESSIONS}/{quote(session_id, safe='')}"


def memory_uri(memory_id: int) -> str:
    """Return where a memory can be read."""
    return f"memory://memories/{memory_id}"


def as_json(value: object) -> str:
    """Return a value as JSON, as short as it is counted."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
