"""Resources: the sessions, one session, one memory, and search latencies.

A memory's text is returned as stored, with its provenance in front, so that readers can tell it from instructions.
"""

from urllib.parse import quote

from fastmcp import FastMCP
from fastmcp.resources import Resource, ResourceTemplate
from pydantic import BaseModel

from vector_memory.answers.budget import ResponseBudget, cut
from vector_memory.answers.models import MemoryEntry
from vector_memory.answers.overview import SessionEntry, SessionStatsResult, TimelineEntry
from vector_memory.domain import Scope
from vector_memory.domain.validation import MAX_LIMIT, parse_id
from vector_memory.errors import NotFoundError
from vector_memory.reading.documents import front_matter
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools.failures import protocol_errors
from vector_memory.server.tools.params import Store

JSON, MARKDOWN = "application/json", "text/markdown"

SESSIONS = "memory://sessions"
SESSION = f"{SESSIONS}/{{session_id}}"
MEMORY = "memory://memories/{memory_id}{?offset}"
STATISTICS = "memory://stats/search"

LINK = 100
"""Bytes reserved for the link to the rest."""

NOT_SHOWN = {"content", "content_hash", "updated_at", "accessed_at", "access_count"}
"""Fields of a memory that are not part of its front matter."""


class SessionLink(SessionEntry):
    """A session and its URI."""

    uri: str


class MemoryLink(TimelineEntry):
    """A memory's beginning and its URI."""

    uri: str


class SessionList(BaseModel):
    """The sessions; `total_sessions` also counts those that did not fit."""

    total_sessions: int
    sessions: list[SessionLink]
    message: str | None = None


class SessionOverview(SessionStatsResult):
    """A session's contents: counts, and the beginnings of the newest memories that fit."""

    latest_memories: list[MemoryLink]

    def as_json(self) -> str:
        """Return the overview as JSON."""
        return self.model_dump_json(exclude={"success", "error"})


def add_resources(server: FastMCP) -> None:
    """Add the resources to a server."""
    server.add_resource(Resource.from_function(sessions, SESSIONS, title="Sessions", mime_type=JSON))
    server.add_resource(Resource.from_function(statistics, STATISTICS, title="Search statistics", mime_type=JSON))
    server.add_template(
        # FastMCP's check is meant for paths. A session id may look like a path, and is never used as one.
        ResourceTemplate.from_function(session, SESSION, title="Session", mime_type=JSON, security=None)
    )
    server.add_template(ResourceTemplate.from_function(memory, MEMORY, title="Memory", mime_type=MARKDOWN))


def sessions(store: Store) -> str:
    """List the sessions, latest activity first, each with its URI."""
    with protocol_errors(SESSIONS):
        found = store.list_sessions(MAX_LIMIT)
    listed = [SessionLink(**entry.model_dump(), uri=session_uri(entry.session_id)) for entry in found.sessions]
    total = found.total_sessions

    def build(budget: ResponseBudget) -> SessionList:
        shown = budget.fitting(listed)
        rest = None if len(shown) == total else f"{len(shown)} of {total}: read any other session by its id."
        return SessionList(total_sessions=total, sessions=shown, message=rest)

    return budget_of(store).fit(build).model_dump_json()


def session(store: Store, session_id: str) -> str:
    """Read a session: counts, and its newest memories, each with its URI."""
    with protocol_errors(SESSION):
        return overview(store, session_id, MAX_LIMIT, budget_of(store)).as_json()


def memory(store: Store, memory_id: str, offset: str = "0") -> str:
    """Read a memory: its provenance, then as much of its text from character `offset` as fits."""
    with protocol_errors(MEMORY):
        found = store.get_memory_by_id(memory_id, parse_id("offset", offset)).memory
    assert found is not None, "or an error would have been raised"  # noqa: S101
    return as_page(found, parse_id("offset", offset), budget_of(store))


def as_page(found: MemoryEntry, offset: int, budget: ResponseBudget) -> str:
    """Return a memory from `offset` with its provenance in front, which takes at most half of the answer."""
    frame, share = found.model_copy(update={"content": ""}), 2
    while len((front := front_matter(frame.model_dump(exclude=NOT_SHOWN))).encode()) > budget.room // 2:
        # YAML may take many times the bytes of JSON.
        share *= 2
        frame = budget.slim(frame, share)
        if share > budget.room:
            break
    text, end = cut(found.content, 0, budget.room - len(front.encode()) - LINK)
    read_on = found.content_end if end is None else offset + end
    if read_on is not None:
        facts = frame.model_dump(exclude=NOT_SHOWN) | {"content_end": read_on}
        front = front_matter(facts | {"read_on": f"{memory_uri(found.id)}?offset={read_on}"})
    return front + text


def statistics(store: Store) -> str:
    """Latencies of this process's most recent searches, in seconds."""
    with protocol_errors(STATISTICS):
        return store.get_search_statistics().model_dump_json()


def overview(store: SessionMemoryStore, session_id: str, limit: int, budget: ResponseBudget) -> SessionOverview:
    """Return a session's counts and the beginnings of up to `limit` memories, newest first.

    Raises NotFoundError if nothing is stored in it.
    """
    counts = store.get_session_stats(session_id)
    if not counts.total_memories:
        raise NotFoundError(f"Nothing is stored in this session: {SESSIONS} lists the sessions that exist.")
    latest = store.get_timeline(Scope(session_id=session_id), limit).entries[::-1]
    listed = [MemoryLink(**entry.model_dump(), uri=memory_uri(entry.memory_id)) for entry in latest]
    facts = counts.model_dump()

    def build(budget: ResponseBudget) -> SessionOverview:
        return SessionOverview(**facts, latest_memories=budget.fitting(listed))

    return budget.fit(build)


def budget_of(store: SessionMemoryStore) -> ResponseBudget:
    """Return the budget that keeps answers within the configured limit."""
    return ResponseBudget(store.settings.max_response_tokens)


def session_uri(session_id: str) -> str:
    """Return the URI of a session. Its id may contain any character."""
    return f"{SESSIONS}/{quote(session_id, safe='')}"


def memory_uri(memory_id: int) -> str:
    """Return the URI of a memory."""
    return f"memory://memories/{memory_id}"
