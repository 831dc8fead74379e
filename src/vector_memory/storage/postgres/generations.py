"""Generations: a memory that goes on from a copy without what was stored last gives none of the lost ids again.

Such a copy is a standby that takes over before it has everything, or a restored backup. The first writer who meets
another lineage than the last one begins a generation: it leaves out the ids that may be lost. So no cursor passes over
what is new, and no id that somebody knows gets another text.

Files that are put back continue on the same lineage. Only a process that has met a later state notices them.

Some engines do not say their timeline. There the start of the server stands for it, so each restart begins a
generation, because nobody can tell it from a failover.
"""

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from vector_memory.storage.postgres.statement import Statement

JUMP = 1_000_000
"""More ids of each kind than can have been lost."""

BY_START = 0
"""Stands for the timeline of a server that does not say it. The first one has the number 1."""

KEPT = 100
"""The latest generations, which are read. Cursors are not as old as those before."""


class Marks(NamedTuple):
    """How far a memory has come: all four only ascend, unless it goes on from a copy."""

    revision: int = 0
    last_memory_id: int = 0
    last_chunk_id: int = 0
    last_passage_id: int = 0


class NewestMarks:
    """The newest marks that this process has met. Safe to use from several threads."""

    def __init__(self) -> None:
        self.met = Marks()
        self._lock = threading.Lock()

    def meet(self, marks: Marks) -> None:
        """Keep the highest of these marks, which are committed."""
        with self._lock:
            self.met = Marks(*map(max, self.met, marks))


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

READ = f"""
(select oid::bigint << 32 from pg_database where datname = current_database()) + n.tableoid::bigint,
(select json_agg(g order by number) from (select * from generations order by number desc limit {KEPT}) g)
""".strip()
"""The table of the lineage, and the latest generations, in a query of the table `namespace n`."""

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


def gaps_between(known: Sequence[Generation]) -> list[range]:
    """Return the ids that are left out."""
    return [range(each.last_kept_id + 1, each.first_id) for each in known]


def jump_to(known: Sequence[Generation], lineage: Lineage) -> int:
    """Return how many ids a copy leaves out. A timeline between it and the last one may be lost as a whole."""
    return JUMP * max(1, (lineage.timeline or 0) - known[-1].timeline if known else 1)


def new_revision(*revisions: int) -> int:
    """Return a revision that no process has met: the time in milliseconds, since commits take longer than one."""
    return max(time.time_ns() // 1_000_000, *(revision + 1 for revision in revisions))


def begin(known: Sequence[Generation], lineage: Lineage, gap: range, revision: int) -> Statement:
    """Return what stores the next generation. `gap`: the ids that it leaves out."""
    return Statement(BEGIN, (known[-1].number + 1 if known else 1, *lineage, gap.start - 1, gap.stop, revision))
