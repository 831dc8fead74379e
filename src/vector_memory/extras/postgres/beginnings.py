"""What each transaction sends first: its settings, and what it must know of the memory.

Nothing is set for a connection. A pooler between this process and the server may give each transaction to another
session of the server, and that session to any other process afterwards.
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
    "client_min_messages": "warning",  # which a connection takes note of while it commits
    "tcp_keepalives_idle": "10",  # so that the server ends the transaction of a machine that is gone
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

UNLIMITED: Mapping[str, str] = {"statement_timeout": "0", "lock_timeout": "0"}
"""For statements that take as long as they need, whatever the role is set to."""

MAINTAINING: Mapping[str, str] = {**SETTINGS, **UNLIMITED, "idle_in_transaction_session_timeout": "0"}

READING: Mapping[str, str] = {**SETTINGS, "statement_timeout": "60s"}
WRITING: Mapping[str, str] = {
    **SETTINGS,
    "plan_cache_mode": "auto",  # writers look for ids: planning takes longer than running the statement
    "enable_seqscan": "off",  # so a plan that was made for a small table is as good when the table has grown
    "statement_timeout": "900s",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "20s",  # a writer that was stopped keeps others waiting, who do so for 30
}

# Somebody's function in the schema `public` could stand for one that is not named with its schema.
# The schema of pg_temp is last: else somebody's temporary table could stand for one of ours.
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
    """Begin to wait, as a change would, and change nothing."""
    return (READ_COMMITTED, *in_schema(schema, WRITING))


def looking(schema: str, settings: Mapping[str, str] = MAINTAINING) -> Beginning:
    """Begin to look into a schema that need not be one of a memory."""
    return (READ_ONLY, *in_schema(schema, settings))


def maintaining(schema: str) -> Beginning:
    """Begin to change a schema that need not be one of a memory, for as long as it takes."""
    return (READ_COMMITTED, *in_schema(schema, MAINTAINING))


def in_schema(schema: str, settings: Mapping[str, str]) -> Beginning:
    """Let the statements of a transaction name the tables of a schema, and the types of pgvector if it is there."""
    calls = (f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in settings.items())
    return (Statement("select " + ", ".join((FOUND_FIRST, *calls)), {"schema": schema}),)
