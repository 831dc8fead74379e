"""The verbs of `storage.connection` for PostgreSQL, and its own ways to read and write."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from vector_memory.domain import Fingerprint, Scope
from vector_memory.extras.postgres.beginnings import State
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.statement import Cursor, Statement, as_postgres, insert_into, rows_of
from vector_memory.storage import connection
from vector_memory.storage.base import Reader, Writer
from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.connection import NOTHING, Parameters, Query, Steps, read
from vector_memory.storage.queries.insert import Numbered
from vector_memory.storage.queries.passages import LACKING, MODELS, Lacking, Model, Passage, TokenStates, model_from_row
from vector_memory.storage.queries.pending import PendingQueries
from vector_memory.storage.records import LastIds, Memory, Pending

if TYPE_CHECKING:
    from vector_memory.storage.queries.candidates import Candidates
    from vector_memory.storage.scoring import Vectors

# Modules that import numpy are imported where they are used: commands that only list memories do not need it.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.base


T = TypeVar("T")

# One array holds the numbers of all vectors: arrays of vectors would need their type's number in this database.
ADD_PASSAGES = """
    insert into memory_passages (
        id, model_id, memory_id, chunk_id, start_char, end_char, memory_type, agent_id, session_id, session_iter,
        task_code, embedding, states
    )
    select %(first)s + p.number - 1, %(model)s, m.id, p.chunk_id, p.start_char, p.end_char, m.memory_type, m.agent_id,
        m.session_id, m.session_iter, m.task_code,
        (%(vectors)s::real[])[(p.number - 1) * %(length)s + 1 : p.number * %(length)s]::vector, p.states
    from unnest(%(chunks)s::bigint[], %(starts)s::integer[], %(ends)s::integer[], %(states)s::bytea[])
        with ordinality p(chunk_id, start_char, end_char, states, number)
    join session_memories m on m.id = %(memory)s
"""

# A role that may not set a sequence may still take numbers from it.
NUMBER = "nextval(pg_get_serial_sequence('keyword_blocks', 'id'))"

# Until the server does so itself, plans would be those for empty tables.
ANALYZE = """
analyze session_memories, memory_chunks, memory_passages, keyword_memories, keyword_blocks, keyword_postings,
    memory_lifecycle, supersessions, later_links
"""


class PostgresConnection(connection.Connection):
    """A connection in a transaction. `unchecked`: psycopg's connection, for reads that do not depend on visibility."""

    def __init__(self, raw: Connection) -> None:
        self.unchecked = raw

    @property
    def raw(self) -> Connection:
        """The connection of psycopg. Raises AccessDeniedError if only some sessions may be seen."""
        self.require_all()
        return self.unchecked

    def prepared(self, sql: str, parameters: Parameters = NOTHING) -> Statement:
        """Return a statement that is to be sent."""
        sql, parameters = self.only_visible(sql, parameters)
        return Statement(as_postgres(sql), parameters, binary=True)

    def _execute(self, sql: str, parameters: Parameters) -> Cursor:
        statement = self.prepared(sql, parameters)
        return self.unchecked.execute(statement.sql, statement.parameters, binary=True)

    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""
        return rows_of(self._execute(sql, parameters), make)

    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""
        return [row[0] for row in self._execute(sql, parameters).fetchall()]

    def batch(self, *asked: Query) -> list[list[Any]]:
        """Run several queries in one round trip. Raises CancelledCallError if nobody waits for their results."""
        if not asked:
            return []
        require_wanted()
        cursors = self.unchecked.together(*(self.prepared(one.sql, one.parameters) for one in asked))
        return [rows_of(cursor, one.make) for cursor, one in zip(cursors, asked, strict=True)]

    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Send a statement with the next one that is read, or with the commit."""
        self.unchecked.later(*self.prepared(sql, parameters)[:2])

    def insert(self, table: str, rows: Sequence[Parameters], on_conflict: str = "") -> None:
        """Insert rows by one statement, when `later` would send it."""
        if rows:
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            self.raw.later(insert_into(table, tuple(columns), on_conflict), columns)


class PostgresVectors(PendingQueries):
    """Reads passages and their vectors."""

    connection: PostgresConnection
    _is_ahead = False

    @property
    def _state(self) -> State:
        return self.connection.unchecked.state

    @read
    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Steps[Pending]:
        yield None  # what the transaction knows from its beginning
        if not self._state.pending:
            return Pending()
        return (yield from super().pending.steps(scope, until, owner))

    @property
    def room(self) -> int:
        return self._state.dimensions

    def models(self) -> list[Model]:
        state = self._state
        if state.models is None:
            state.models = self.connection.fetch(model_from_row, MODELS)
        return state.models

    def forget_models(self) -> None:
        self._state.models = None

    def begin_ahead(self, fingerprint: Fingerprint | None) -> bool:
        """Read as if all vectors were from this model: checking would cost a round trip."""
        self._chosen, self._is_ahead = fingerprint, True
        return True

    def end_ahead(self) -> bool:
        self._is_ahead = False
        return len(self.models()) <= 1

    @property
    def lacking(self) -> Lacking:
        return LACKING if self._is_ahead else super().lacking

    @property
    def candidates(self) -> "Candidates":
        from vector_memory.extras.postgres.candidates import PostgresCandidates

        if not self._is_ahead:
            return PostgresCandidates(self.connection, self.model, self.lacking)
        # Vectors of another length cannot be compared.
        is_read = "true" if self._chosen is None else f"vector_dims(p.embedding) = {self._chosen.dimensions}"
        return PostgresCandidates(self.connection, None, LACKING, is_read)


class PostgresReader(Reader):
    """A reader over a connection in a transaction."""

    connection: PostgresConnection
    reads_ahead = True

    def __init__(self, connection: Connection) -> None:
        super().__init__(PostgresVectors(PostgresConnection(connection)))

    def last_ids(self) -> LastIds:
        return LastIds(self.connection.raw.state.last_memory_id, self.connection.raw.state.last_chunk_id)

    @property
    def gaps(self) -> Sequence[range]:
        return self.connection.unchecked.state.gaps


class PostgresWriter(PostgresReader, Writer):
    """A writer over a connection in a write transaction."""

    def raise_last_ids(self, last: LastIds) -> None:
        state = self.connection.raw.state
        state.last_memory_id = max(state.last_memory_id, last.memory)
        state.last_chunk_id = max(state.last_chunk_id, last.chunk)
        state.has_new_ids = True

    def end_copy(self) -> None:
        last_block = self.connection.fetch_value("select max(id) from keyword_blocks")
        next_block = self.connection.fetch_value(f"select {NUMBER}")
        values = {"next": next_block, "last": last_block}
        self.connection.later(f"select max({NUMBER}) from generate_series(%(next)s + 1, %(last)s)", values)
        self.connection.later(ANALYZE)

    def next_ids(self, of: Numbered, count: int) -> list[int]:
        return self.connection.raw.state.next_ids(of, count)

    def make_room(self, model: Model) -> None:
        self.connection.raw.state.dimensions = model.fingerprint.dimensions
        sql = "update namespace set dimensions = %(length)s where dimensions <> %(length)s"
        self.connection.later(sql, {"length": model.fingerprint.dimensions})

    def remove_room(self, model: Model) -> None:
        """Do nothing: all vectors are in one table."""

    def add_passages(
        self, memory: Memory, passages: Sequence[Passage], vectors: "Vectors", states: TokenStates, model_id: int
    ) -> None:
        if not passages:
            return
        first, *_ = self.next_ids("passage", len(passages))
        chunks, starts, ends = (list(column) for column in zip(*passages, strict=True))
        self.connection.raw.later(
            ADD_PASSAGES,
            {
                "model": model_id,
                "memory": memory.id,
                "first": first,
                "chunks": chunks,
                "starts": starts,
                "ends": ends,
                "states": states or [None] * len(passages),
                "vectors": vectors,
                "length": vectors.shape[1],
            },
        )
