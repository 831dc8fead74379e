"""Generations: a memory that continues from a copy that lacks the latest stores reuses none of the lost ids.

Such a copy is a standby that takes over before it has everything, or a restored backup. The first writer that sees
another lineage than the last one begins a generation: it skips the ids that may be lost. So no cursor skips new
memories, and no known id gets another text. Restored files continue on the same lineage. Only a process that has seen a
later state notices them.

Some engines do not reveal their timeline. There the server's start time replaces it, so each restart begins a
generation, because it looks like a failover.
"""

from collections.abc import Sequence
from typing import NamedTuple

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

PRIMARY_TIMELINE = f"case when not pg_is_in_recovery() then {TIMELINE} end"

SAID = f"(pg_control_system()).system_identifier, {PRIMARY_TIMELINE}"
"""The system and the timeline, by functions that not every engine allows."""

STARTED = f"""
(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint,
case when not pg_is_in_recovery() then {BY_START} end
""".strip()
"""What replaces them."""

READ = """
(select oid::bigint << 32 from pg_database where datname = current_database()) + n.tableoid::bigint,
(select json_agg(g order by number) from generations g)
""".strip()
"""The table of the lineage, and all generations, in a query of the table `namespace n`."""

BEGIN = """
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
