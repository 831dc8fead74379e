"""How each transaction begins: its settings, and the state of the memory that it needs.

Nothing is set for a connection, because a pooler may give each transaction another session of the server, and that
session to any other process afterwards.
"""

from collections.abc import Mapping, Sequence

from vector_memory.extras.postgres import transaction_header
from vector_memory.extras.postgres.statement import Statement

Beginning = Sequence[Statement]

READ_ONLY = Statement("begin isolation level repeatable read read only")
READ_COMMITTED = Statement("begin isolation level read committed")

SETTINGS: Mapping[str, str] = {
    "plan_cache_mode": "force_custom_plan",  # the plan of a search depends on its scope
    "jit": "off",
    "standard_conforming_strings": "on",  # else psycopg doubles the backslashes of bytes
    "array_nulls": "on",
    "client_min_messages": "warning",  # which a connection notices while it commits
    "tcp_keepalives_idle": "10",  # so that the server ends the transaction of a machine that is gone
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

UNLIMITED: Mapping[str, str] = {"statement_timeout": "0", "lock_timeout": "0"}
"""For statements without a time limit, whatever the role's settings."""

MAINTAINING: Mapping[str, str] = {**SETTINGS, **UNLIMITED, "idle_in_transaction_session_timeout": "0"}

READING: Mapping[str, str] = {**SETTINGS, "statement_timeout": "60s"}
WRITING: Mapping[str, str] = {
    **SETTINGS,
    "plan_cache_mode": "auto",  # writers look for ids: planning takes longer than running the statement
    "enable_seqscan": "off",  # so a plan made for a small table stays good when the table has grown
    "statement_timeout": "900s",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "20s",  # a stopped writer blocks others, which wait for 30
}

# Somebody's function in the schema `public` could shadow one that is not qualified.
# pg_temp is last, or a temporary table could shadow one of ours.
FOUND_FIRST = """
pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', pg_catalog.quote_ident(%(schema)s), (
    select extnamespace::pg_catalog.regnamespace::pg_catalog.text from pg_catalog.pg_extension
    where extname operator(pg_catalog.=) 'vector'
), 'pg_temp'), true)
"""


def reading(schema: str) -> Beginning:
    """Begin to read one state of a memory."""
    return (READ_ONLY, *in_schema(schema, READING), transaction_header.READ)


def writing(schema: str) -> Beginning:
    """Begin to change a memory, while nobody else does."""
    return (READ_COMMITTED, *in_schema(schema, WRITING), transaction_header.LOCK, transaction_header.READ)


def confirming(schema: str) -> Beginning:
    """Begin a transaction that waits as a change would, and changes nothing."""
    return (READ_COMMITTED, *in_schema(schema, WRITING))


def looking(schema: str, settings: Mapping[str, str] = MAINTAINING) -> Beginning:
    """Begin to inspect a schema that need not be a memory's."""
    return (READ_ONLY, *in_schema(schema, settings))


def maintaining(schema: str) -> Beginning:
    """Begin to change a schema that need not be a memory's, without a time limit."""
    return (READ_COMMITTED, *in_schema(schema, MAINTAINING))


def in_schema(schema: str, settings: Mapping[str, str]) -> Beginning:
    """Set a transaction's search path to a schema and, if pgvector is installed, to its types."""
    calls = (f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in settings.items())
    return (Statement("select " + ", ".join((FOUND_FIRST, *calls)), {"schema": schema}),)
