"""The conversation that the server serves, and the names that its client may leave out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anyio.to_thread import run_sync
from fastmcp import Context

from vector_memory.domain import LAST, Project, utc_now
from vector_memory.domain.callers import Permission
from vector_memory.domain.validation import MAX_IDENTIFIER
from vector_memory.server.current_store import current_caller, store_of_caller

SESSION_KEY = "vector-memory/session"
"""The key of a call's `_meta` under which a relay sends the session that its client's hooks have named."""

SOME_AGENT = "agent"
"""The agent of a client without a name."""


@dataclass(slots=True)
class KnownSession:
    """What the server knows of a session that hooks report.

    `latest`: the time of its latest memory when the server first heard of it; None: it had none. `has_prompt`: whether
    a prompt was heard. `is_caught_up`: whether the transcript was looked through for what was said before. `told`: the
    memories that its agent has been shown.
    """

    latest: str | None
    has_prompt: bool = False
    is_caught_up: bool = False
    told: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Conversation:
    """What the server learns of its client: all of it over standard streams, one call of it over HTTP.

    `is_over_http`: the client is on another machine, as far as the server knows. `session_id`: the client's own
    session, if a hook has named it. `stored_in`: the session of its latest store. `started`: when the conversation
    started. `heard`: sessions that hooks report. `prompts`: hashes and times of the prompts of each, which may not be
    stored yet.
    """

    project: Project
    may_store: bool
    is_over_http: bool
    session_id: str | None = None
    stored_in: str | None = None
    started: str = field(default_factory=utc_now)
    heard: dict[str, KnownSession] = field(default_factory=dict)
    prompts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def session(self) -> str:
        """Return the session for a store that names none: the client's own, or one for the project and the day.

        That is the day on which the conversation started, in this machine's time zone.
        """
        started = datetime.fromisoformat(self.started).astimezone()
        return self.session_id or self.project.session_on(started.date().isoformat())

    def in_use(self) -> str:
        """Return the session that this conversation is: the client's own, or the one that it stored in last."""
        return self.session_id or self.stored_in or self.session()


def conversation_of(context: Context) -> Conversation:
    """Return the conversation that a call belongs to, on a server with session tools."""
    only: Conversation = context.lifespan_context["conversation"]
    if not only.is_over_http:
        return only
    # Each call is a conversation of its own: what one client has said must not reach another.
    caller, request = current_caller(), context.request_context
    named = request.meta.get(SESSION_KEY) if request and request.meta else None
    return Conversation(
        Project(caller.namespace, owns_memory=True),
        may_store=only.may_store and caller.may(Permission.WRITE),
        is_over_http=True,
        session_id=(named.strip() or None) if isinstance(named, str) else None,
    )


def client_of(context: Context) -> str:
    """Return the name of the client, as the agent for a store that names none."""
    client = context.session.client_params
    name = client.client_info.name.strip() if client else ""
    return current_caller().agent_id or name[:MAX_IDENTIFIER] or SOME_AGENT


async def with_names(given: dict[str, Any], properties: Mapping[str, Any], context: Context, *, stores: bool) -> None:
    """Complete the arguments of a call. `properties`: the tool's parameters. `stores`: it adds a memory.

    A store that names no session belongs to the client's own, and one that names no agent to the client. Everything
    else is left as it is: a search without a session searches all of them.
    """
    if given.get("session_id") == LAST:
        conversation = conversation_of(context)
        past = store_of_caller(context.lifespan_context).past
        found = await run_sync(past.last_session, conversation.project, conversation.in_use())
        given["session_id"] = found or (conversation.session() if stores else LAST)
    if stores and "session_id" in properties:
        given.setdefault("session_id", conversation_of(context).session())
    if stores and "agent_id" in properties and "default" not in properties["agent_id"]:
        given.setdefault("agent_id", client_of(context))
