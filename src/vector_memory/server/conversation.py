"""The conversation that the server serves, and the names that its client may leave out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyio.to_thread import run_sync
from fastmcp import Context

from vector_memory.domain import Project, utc_now
from vector_memory.domain.validation import MAX_IDENTIFIER
from vector_memory.server.current_store import current_caller, store_of_caller
from vector_memory.sessions.recap import LAST
from vector_memory.tenancy.tokens import Permission

OVER_HTTP = "over_http"
"""The name of the part that says whether clients are on other machines."""

SESSION_KEY = "vector-memory/session"
"""The key of a call's `_meta` under which a relay sends the session that its client's hooks have named."""

SOME_AGENT = "agent"
"""The agent of a client without a name."""


@dataclass(slots=True)
class HeardSession:
    """What the server knows of a session that hooks report.

    `latest`: the time of its latest memory when the server first heard of it; None: it had none. `has_prompt`: whether
    a prompt was heard. `is_caught_up`: whether the transcript was looked through for what was said before. `told`: the
    memories that its agent was told of.
    """

    latest: str | None
    has_prompt: bool = False
    is_caught_up: bool = False
    told: set[int] = field(default_factory=set)


class Conversation:
    """What the server learns of its client. `started`: when the server started. `heard`: sessions that hooks report.

    `prompts`: hashes and times of the prompts of each, which may not be stored yet.
    """

    def __init__(self, project: Project, *, may_store: bool) -> None:
        self.project = project
        self.may_store = may_store
        self.started = utc_now()
        self.heard: dict[str, HeardSession] = {}
        self.prompts: dict[str, list[tuple[str, str]]] = {}
        self._session_id: str | None = None

    @property
    def own_session(self) -> str | None:
        """The client's own session, if a hook has named it."""
        return self._session_id

    def enter(self, session_id: str) -> None:
        """Note the client's own session."""
        self._session_id = session_id

    def session(self) -> str:
        """Return the session for a store that names none: the client's own, or one for the project and the day."""
        return self._session_id or self.project.session_on(utc_now()[: len("2000-01-01")])


def conversation_of(context: Context) -> Conversation:
    """Return the conversation that a call belongs to, on a server with session tools."""
    only: Conversation = context.lifespan_context["conversation"]
    if not is_over_http(context):
        return only
    # Each call is a conversation of its own: what one client has said must not reach another.
    caller = current_caller()
    may_store = only.may_store and caller.may(Permission.WRITE)
    conversation = Conversation(Project(caller.namespace, owns_memory=True), may_store=may_store)
    request = context.request_context
    session_id = request.meta.get(SESSION_KEY) if request and request.meta else None
    if isinstance(session_id, str) and session_id.strip():
        conversation.enter(session_id.strip())
    return conversation


def is_over_http(context: Context) -> bool:
    """Return whether the client of a call is on another machine, as far as the server knows."""
    return bool(context.lifespan_context[OVER_HTTP])


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
        found = await run_sync(past.last_session, conversation.project, conversation.own_session)
        given["session_id"] = found or (conversation.session() if stores else LAST)
    if stores and "session_id" in properties:
        given.setdefault("session_id", conversation_of(context).session())
    if stores and "agent_id" in properties and "default" not in properties["agent_id"]:
        given.setdefault("agent_id", client_of(context))
