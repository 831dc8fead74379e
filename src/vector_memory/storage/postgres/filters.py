"""The conditions of a Scope as PostgreSQL reads them, for passages and for statements that are not in `queries` yet."""

from vector_memory.domain import Scope
from vector_memory.storage.postgres.dialect import as_postgres
from vector_memory.storage.queries import filters
from vector_memory.storage.queries.filters import CONDITIONS, Filter, parameters_of

COPIED = {"after_id": "p.memory_id > %(after_id)s"} | {
    name: CONDITIONS[name].replace("m.", "p.")
    for name in ("kind", "agent_id", "session_id", "session_iter", "task_code", "own_agent_id", "sessions")
}
"""The conditions over the columns of `memory_passages p` that are copied from the memory."""

MEMORY_OF_PASSAGE = "join session_memories m on m.id = p.memory_id"


def memory_filter(scope: Scope) -> Filter:
    """Return the condition that a memory is in the scope. Several tags match any of them."""
    condition = filters.memory_filter(scope)
    return condition._replace(sql=as_postgres(condition.sql))


def passage_filter(scope: Scope) -> Filter:
    """Return the condition that a passage is in the scope, after `from memory_passages p`: joins and all."""
    parameters = parameters_of(scope)
    joined = "" if parameters.keys() <= COPIED.keys() else MEMORY_OF_PASSAGE
    conditions = " and ".join(COPIED.get(name, CONDITIONS[name]) for name in parameters) or "true"
    return Filter(as_postgres(f"{joined} where {conditions}"), parameters)
