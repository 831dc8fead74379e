"""What every transaction reads at its beginning: the row of the namespace, the model, pending vectors.

A writer locks the row first, and takes its ids from it. So one writer at a time changes a memory, and ids ascend in the
order of commits.
"""

import sys
import time
from dataclasses import dataclass

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import generations
from vector_memory.extras.postgres.dialect import as_postgres
from vector_memory.extras.postgres.generations import JUMP, Generation, Lineage, Marks
from vector_memory.extras.postgres.schema import VERSION
from vector_memory.extras.postgres.statement import Cursor, Statement
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.insert import Numbered
from vector_memory.storage.queries.passages import Model, model_from_row
from vector_memory.storage.queries.pending import IS_HELD

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
            (select json_agg(e) from embedding_models e), {server}, {generations.READ}
        from namespace n
        """
    )
    for server in (generations.SAID, generations.STARTED)
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
        return (is_behind and self.lineage.timeline is not None) or generations.is_over(self.generations, self.lineage)

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
        return [Statement(generations.BEGIN, values)]

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
    version, *numbers, pending, models = row[:8]
    if version == GIVEN_AWAY:
        raise DatabaseError(MOVED)
    if version > VERSION:
        raise DatabaseError(NEWER)
    revision, memory, chunk, passage, dimensions = numbers
    return State(
        revision=revision,
        last_memory_id=memory,
        last_chunk_id=chunk,
        last_passage_id=passage,
        dimensions=dimensions,
        pending=pending,
        models=[model_from_row(**model) for model in models or ()],
        lineage=Lineage._make(row[8:11]),
        generations=[Generation(**each) for each in row[11] or ()],
        met=met,
    )
