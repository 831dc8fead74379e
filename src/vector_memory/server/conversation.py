"""The conversation that the server serves, and the names that its client may leave out."""

from fastmcp import Context

from vector_memory.domain import Project, utc_now
from vector_memory.server.callers import current_caller
from vector_memory.tenancy.callers import Permission
from vector_memory.validation import MAX_IDENTIFIER

SOME_AGENT = "agent"
"""The agent of a client that does not say its name."""


class Conversation:
    """What the server learns of its client. `told`: by session, the memories that hooks have told it."""

    def __init__(self, project: Project, *, may_store: bool) -> None:
        self.project = project
        self.may_store = may_store
        self.told: dict[str, set[int]] = {}
        self._session_id: str | None = None

    @property
    def own_session(self) -> str | None:
        """The client's own session, if a hook has named it."""
        return self._session_id

    def enter(self, session_id: str) -> None:
        """Note the client's own session."""
        self._session_id = session_id

    def session(self) -> str:
        """Return the session for a store that names none: the client's own, or one of the project and the day."""
        return self._session_id or self.project.session_on(utc_now()[: len("2000-01-01")])


def conversation_of(context: Context) -> Conversation:
    """Return the conversation that a call belongs to, on a server with session tools."""
    only: Conversation | None = context.lifespan_context["conversation"]
    if only is not None:
        return only
    caller = current_caller()
    return Conversation(Project(caller.namespace, owns_memory=True), may_store=caller.may(Permission.WRITE))


def client_of(context: Context) -> str:
    """Return the name of the client, as the agent for a store that names none."""
    client = context.session.client_params
    name = client.client_info.name.strip() if client else ""
    return current_caller().agent_id or name[:MAX_IDENTIFIER] or SOME_AGENT
