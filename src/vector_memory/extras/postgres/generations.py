"""Generations: a memory that goes on from a copy without what was stored last gives none of the lost ids again.

Such a copy is a standby that takes over before it has everything, or a restored backup. The first writer who meets
another lineage than the last one begins a generation: it leaves out the ids that may be lost. So no cursor passes over
what is new, and no id that somebody knows gets another text.

Files that are put back continue on the same lineage. Only a process that has met a later state notices them.

Some engines do not say their timeline. There the start of the server stands for it, so each restart begins a
generation, because nobody can tell it from a failover.
"""

from collections.abc import Sequence
from typing import NamedTuple

JUMP = 1_000_000
"""More ids of each kind than can have been lost."""

BY_START = 0
"""Stands for the timeline of a server that does not say it. The first one has the number 1."""


class Marks(NamedTuple):
    """How far a memory has come: all four only ascend, unless it goes on from a copy."""

    revision: int = 0
    last_memory_id: int = 0
    last_chunk_id: int = 0
    last_passage_id: int = 0


class Newest:
    """The newest marks that this process has met. Of two threads at once, one may leave older ones."""

    marks = Marks()

    def meet(self, marks: Marks) -> None:
        """Keep the highest of these marks, which are committed."""
        self.marks = Marks(*map(max, self.marks, marks))


class Lineage(NamedTuple):
    """Where the commits of a memory are. A server that takes over begins a timeline, a restored dump another table.

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
"""What stands for them."""

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
    """Return whether the memory goes on from a copy, where nobody has stored yet.

    Not every role may see the timeline: those that may, and those that may not, compare with what their like has met.
    """
    if not known or lineage.timeline is None:
        return False
    alike = [each for each in known if (each.timeline == BY_START) == (lineage.timeline == BY_START)]
    return not alike or alike[-1].lineage != lineage
