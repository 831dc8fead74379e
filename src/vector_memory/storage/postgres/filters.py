"""The conditions of a Scope on passages, which have some columns of their memories in this engine."""

from vector_memory.domain import Scope
from vector_memory.storage.postgres.dialect import as_postgres
from vector_memory.storage.queries.filters import CONDITIONS, Filter, parameters_of

COPIED = {"after_id": "p.memory_id > %(after_id)s"} | {
    name: CONDITIONS[name].replace("m.", "p.")
    for name in ("kind", "agent_id", "session_id", "session_iter", "task_code", "own_agent_id", "sessions")
}
"""The conditions over the columns of `memory_passages p` that are copied from the memory."""

MEMORY_OF_PASSAGE = "join session_memories m on m.id = p.memory_id"


def passage_filter(scope: Scope) -> Filter:
    """Return the condition that a passage is in the scope, after `from memory_passages p`: joins and all."""
    parameters = parameters_of(scope)
    joined = "" if parameters.keys() <= COPIED.keys() else MEMORY_OF_PASSAGE
    conditions = " and ".join(COPIED.get(name, CONDITIONS[name]) for name in parameters) or "true"
    return Filter(as_postgres(f"{joined} where {conditions}"), parameters)
