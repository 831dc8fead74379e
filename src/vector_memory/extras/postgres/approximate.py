"""The optional index of vectors, for searches of large scopes.

It is an HNSW index over vectors of 16-bit floats. Its answers are approximate, and PostgreSQL applies filters to them
afterwards, so it would shorten answers where filters let little through. Therefore the planner never chooses it: only a
search of a scope with more than EXACT_PASSAGES passages does, compares what it returns with the stored vectors, and
compares the whole scope if that was too little.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from psycopg import errors as postgres
from psycopg.sql import SQL, Identifier, Literal

from vector_memory.errors import DatabaseError, DatabaseLockError
from vector_memory.extras.postgres import beginnings, migrations
from vector_memory.extras.postgres.connecting import connect, statements_alone
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.statement import Row, Statement, as_postgres, fetch_value
from vector_memory.storage.queries.filters import Filter
from vector_memory.storage.scoring import Vectors

NAME = "idx_passage_nearest"

EXACT_PASSAGES = 50_000
"""Up to this many passages of a scope are all compared, in at most 50 ms."""

MOST = 1_000
"""Maximum number of passages requested from the index. It always examines this many, the limit of `hnsw.ef_search`:
with 400 instead, it missed 9 % of the ten nearest of 1,000,000, and took 10 ms, not 14."""

LOCK_KEY = 0x6E656172  # "near"
"""Key of the advisory lock for changing the index, with the hash of the schema's name. Two processes creating it at
once would wait for each other, and one waiting for the lock would block the other: so nobody waits."""

BEING_CHANGED = "Another process is creating or dropping the index: repeat the command when it has finished."
NOT_OWNER = "Only the role that owns the tables may create or drop the index: use its URL."

# `case` keeps PostgreSQL from counting where there is no index.
USABLE = """
select case when exists (
    select 1 from pg_index where indexrelid = to_regclass(quote_ident(current_schema()) || '.{name}') and indisvalid
        and pg_get_expr(indpred, indrelid) = '({model})'
) then (select count(*) from (select 1 from memory_passages p {condition} limit %(above)s) counted) else 0 end
"""

# These make every other plan look expensive, for one statement; the next one resets them.
CHOOSE = Statement(
    "select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), "
    f"set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '{MOST}', true)"
)
LEAVE = Statement("select set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true)")


VECTORS = """
select dimensions, coalesce((select id from embedding_models where is_current), 1), (
    select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'
) from namespace
"""

CREATE = """
create index concurrently if not exists {name} on {schema}.memory_passages
using hnsw ((embedding::{extension}.halfvec({length})) {extension}.halfvec_l2_ops) where model_id = {model}
"""

UNUSABLE = """
select not indisvalid or pg_get_expr(indpred, indrelid) is distinct from format('(model_id = %%s)', %s::integer)
from pg_index where indexrelid = to_regclass(%s)
"""
"""Whether the index was not completed, or has the vectors of another model."""


def is_usable(connection: Connection, condition: Filter, model: str) -> bool:
    """Return whether there is an index of a model, and more than EXACT_PASSAGES passages fulfil a condition."""
    sql = USABLE.format(name=NAME, condition=as_postgres(condition.sql), model=model)
    found = fetch_value(connection, sql, condition.parameters | {"above": EXACT_PASSAGES + 1})
    return int(found) > EXACT_PASSAGES


def nearest(connection: Connection, condition: Filter, is_read: str, query: Vectors, k: int) -> list[Row] | None:
    """Return unit and vector of nearly the `k` nearest passages, in any order; None: compare all of them.

    `is_read`: the part of the condition that a passage `p` is of the model.
    """
    if k > MOST or not is_usable(connection, condition, is_read.removeprefix("p.")):
        return None
    length = len(query)
    sql = f"""
        select coalesce(p.chunk_id, p.memory_id), p.embedding from memory_passages p {as_postgres(condition.sql)}
        order by p.embedding::halfvec({length}) <-> %(query)s::real[]::vector({length})::halfvec({length})
        limit %(k)s
    """
    found = Statement(sql, condition.parameters | {"query": query, "k": k}, binary=True)
    _, answer, _ = connection.together(CHOOSE, found, LEAVE)
    rows = answer.fetchall()
    return rows if len(rows) == k else None


def change(url: str, schema: str, *, drop: bool = False) -> None:
    """Create the index while others read and write the memory, or drop it. One that is unusable is replaced.

    Raises DatabaseError, also if another process is creating or dropping it.
    """
    index = f"{Identifier(schema).as_string()}.{NAME}"  # without the schema, another memory's could be found
    with maintained(url, schema) as (connection, length, model, extension):
        if drop or fetch_value(connection, UNUSABLE, (model, index)):
            connection.execute(f"drop index concurrently if exists {index}")
        if not drop:
            names = {"name": Identifier(NAME), "schema": Identifier(schema), "extension": Identifier(extension)}
            connection.execute(SQL(CREATE).format(**names, length=Literal(length), model=Literal(model)).as_string())


@contextmanager
def maintained(url: str, schema: str) -> Iterator[tuple[Connection, int, int, str]]:
    """Yield a connection for `statements_alone` which alone changes the index of a memory.

    Also the length of the vectors, the id of their model, and the schema of pgvector. A transaction on another
    connection holds the lock in the meantime: it has no snapshot, so nobody waits for it. Raises DatabaseError.
    """
    with statements_alone(url) as connection, closing(connect(url)) as holder:
        if not migrations.version_of(connection, schema):
            raise DatabaseError(migrations.MISSING)
        with holder.writing(beginnings.maintaining(schema)):
            if not fetch_value(holder, "select pg_try_advisory_xact_lock(%s, hashtext(%s))", (LOCK_KEY, schema)):
                raise DatabaseLockError(BEING_CHANGED)
            ((length, model, extension),) = holder.execute(VECTORS).fetchall()
            try:
                yield connection, length, model, extension
                holder.later("update namespace set revision = revision + 1")
            except postgres.InsufficientPrivilege:
                raise DatabaseError(NOT_OWNER) from None
