"""How each transaction begins: its settings, and what it reads of the memory: its row, its model, pending vectors.

Nothing is set for a connection, because a pooler may give each transaction another session of the server, and that
session to any other process afterwards.

A writer locks the memory's row first, and takes its ids from it. So one writer at a time changes a memory, and ids
ascend in the order of commits.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres.schema import VERSION
from vector_memory.extras.postgres.statement import Cursor, Statement, as_postgres
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.insert import Numbered
from vector_memory.storage.queries.passages import Model, model_from_row
from vector_memory.storage.queries.pending import IS_HELD

# A memory that continues from a copy that lacks the latest stores reuses none of the lost ids.
#
# Such a copy is a standby that takes over before it has everything, or a restored backup. The first writer that sees
# another lineage than the last one begins a generation: it skips the ids that may be lost. So no cursor skips new
# memories, and no known id gets another text. Restored files continue on the same lineage. Only a process that has seen
# a later state notices them.
#
# Some engines do not reveal their timeline. There the server's start time replaces it, so each restart begins a
# generation, because it looks like a failover.

JUMP = 1_000_000
"""More ids of each kind than can have been lost."""

BY_START = 0
"""Replaces the timeline of a server that hides it. The first timeline has the number 1."""


class Marks(NamedTuple):
    """How far a memory has come: all four only ascend, unless it continues from a copy."""

    revision: int = 0
    last_memory_id: int = 0
    last_chunk_id: int = 0
    last_passage_id: int = 0


class Newest:
    """The newest marks that this process has seen. Two threads at once may leave older ones."""

    marks = Marks()

    def meet(self, marks: Marks) -> None:
        """Keep the highest of these marks, which are committed."""
        self.marks = Marks(*map(max, self.marks, marks))


class Lineage(NamedTuple):
    """Where a memory's commits are. A server that takes over begins a timeline, a restored dump another table.

    `table_id`: of a table and its database, so that a copy made with `createdb --template` has another.

    `timeline`: None on a standby, which does not know it for certain, and accepts no writers either. BY_START: the
    server does not say it, and `system_id` is the time of its start.
    """

    system_id: int
    timeline: int | None
    table_id: int


class Generation(NamedTuple):
    """What a memory has stored on one lineage. `number`: from 1. The ids between the last two are lost."""

    number: int
    system_id: int
    timeline: int
    table_id: int
    began_at: str
    last_kept_id: int
    first_id: int

    @property
    def lineage(self) -> Lineage:
        """Where it is."""
        return Lineage(self.system_id, self.timeline, self.table_id)


TIMELINE = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer"
"""Of a server that is not a standby."""

SAID = f"(pg_control_system()).system_identifier, case when not pg_is_in_recovery() then {TIMELINE} end"
"""The system and the timeline, by functions that not every engine allows."""

STARTED = f"""
(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint,
case when not pg_is_in_recovery() then {BY_START} end
""".strip()
"""What replaces them."""

GENERATIONS = """
(select oid::bigint << 32 from pg_database where datname = current_database()) + n.tableoid::bigint,
(select json_agg(g order by number) from generations g)
""".strip()
"""The table of the lineage, and all generations, in a query of the table `namespace n`."""

BEGIN_GENERATION = """
with begun as (
    insert into generations (number, system_id, timeline, table_id, last_kept_id, first_id)
    values (%s, %s, %s, %s, %s, %s)
)
update namespace set revision = %s
"""


def is_over(known: Sequence[Generation], lineage: Lineage) -> bool:
    """Return whether the memory continues from a copy in which nobody has stored yet.

    Not every role may see the timeline, so roles that may and roles that may not each compare with their own kind's
    marks.
    """
    if not known or lineage.timeline is None:
        return False
    alike = [each for each in known if (each.timeline == BY_START) == (lineage.timeline == BY_START)]
    return not alike or alike[-1].lineage != lineage


NEWER = "A newer release of vector-memory has changed this memory: upgrade vector-memory on this machine."
GIVEN_AWAY = -1
"""The version of tables that were moved to another database, and are no longer used."""

MOVED = (
    "This memory was moved to another database: use the server of that one. Nothing was changed. The administrator can "
    "drop the schema here."
)
MISSING = "The memory has no row in the table `namespace`: restore the database from a backup."

# The row is locked before anything is read, because a statement reads what was committed when it began. Each wait for
# the lock is brief, since it can be cancelled only between attempts; other locks may take as long as usual.
LOCK = Statement(
    """
    with locked as (update namespace set revision = revision + 1 where id = 1 returning id)
    select set_config('lock_timeout', '30s', true) from locked
    """
)
NOTHING = Marks()
READ, READ_BY_START = (
    Statement(
        f"""
        select n.schema_version, n.revision, n.last_memory_id, n.last_chunk_id, n.last_passage_id, n.dimensions,
            (select count(*) from pending_vectors where {as_postgres(IS_HELD)}),
            (select json_agg(e) from embedding_models e), {server}, {GENERATIONS}
        from namespace n
        """
    )
    for server in (SAID, STARTED)
)


@dataclass(slots=True)
class State:
    """The state of a memory. `pending`: how many memories have vectors that somebody is computing now.

    `dimensions`: the length of the current model's vectors. `models`: None: this transaction has changed them.
    `lineage`: that of the connection. `met`: what this process had met before.
    """

    revision: int
    last_memory_id: int
    last_chunk_id: int
    last_passage_id: int
    dimensions: int
    pending: int
    models: list[Model] | None
    lineage: Lineage
    generations: list[Generation]
    met: Marks
    has_new_ids: bool = False

    @property
    def marks(self) -> Marks:
        """How far the memory has come."""
        return Marks(self.revision, self.last_memory_id, self.last_chunk_id, self.last_passage_id)

    @property
    def is_over(self) -> bool:
        """Whether the memory continues from a copy in which nobody has stored yet."""
        is_behind = self.revision < self.met.revision or self.last_memory_id < self.met.last_memory_id
        return (is_behind and self.lineage.timeline is not None) or is_over(self.generations, self.lineage)

    @property
    def gaps(self) -> list[range]:
        """The skipped ids, and those after the last one if they may be lost."""
        gaps = [range(each.last_kept_id + 1, each.first_id) for each in self.generations]
        return [*gaps, range(self.last_memory_id + 1, sys.maxsize)] if self.is_over else gaps

    def next_ids(self, of: Numbered, count: int) -> list[int]:
        """Return the ids of the next memories, chunks or passages. They are valid only in this write transaction."""
        name = f"last_{of}_id"
        first = int(getattr(self, name)) + 1
        setattr(self, name, first + count - 1)
        self.has_new_ids = True
        return list(range(first, first + count))

    def new_generation(self) -> list[Statement]:
        """Begin a generation if the memory continues from a copy: skip the ids that may be lost.

        Return what stores it. A timeline between the copy's and the last one may be lost as a whole. The revision
        becomes one that no process has seen: the time in milliseconds, since each commit takes longer than one.
        """
        if self.generations and not self.is_over:
            return []
        number, timeline = (self.generations[-1].number, self.generations[-1].timeline) if self.generations else (0, 0)
        kept, jump = self.last_memory_id, JUMP * max(1, (self.lineage.timeline or 0) - timeline) if self.is_over else 0
        newest = Marks(*map(max, self.marks, self.met))
        self.last_memory_id, self.last_chunk_id, self.last_passage_id = (last + jump for last in newest[1:])
        self.has_new_ids = True
        self.revision = max(time.time_ns() // 1_000_000, newest.revision + 1)
        values = (number + 1, *self.lineage, kept, self.last_memory_id + 1, self.revision)
        return [Statement(BEGIN_GENERATION, values)]

    def changes(self) -> list[Statement]:
        """Return the statements that store the ids taken."""
        if not self.has_new_ids:
            return []
        sql = "update namespace set last_memory_id = %s, last_chunk_id = %s, last_passage_id = %s"
        return [Statement(sql, (self.last_memory_id, self.last_chunk_id, self.last_passage_id))]


def state_in(cursor: Cursor, met: Marks = NOTHING) -> State:
    """Return the state that READ found. `met`: what this process had seen before.

    Raises DatabaseError if a newer release has changed the tables.
    """
    row = cursor.fetchone()
    if row is None:
        raise DamagedError(MISSING)
    version, *numbers, models = row[:8]
    if version == GIVEN_AWAY:
        raise DatabaseError(MOVED)
    if version > VERSION:
        raise DatabaseError(NEWER)
    revision, memory, chunk, passage, dimensions, pending = numbers
    known = [model_from_row(**model) for model in models or ()]
    lineage, found = Lineage._make(row[8:11]), [Generation(**each) for each in row[11] or ()]
    return State(revision, memory, chunk, passage, dimensions, pending, known, lineage, found, met)


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
    return (READ_ONLY, *in_schema(schema, READING), READ)


def writing(schema: str) -> Beginning:
    """Begin to change a memory, while nobody else does."""
    return (READ_COMMITTED, *in_schema(schema, WRITING), LOCK, READ)


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
