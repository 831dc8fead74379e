"""A second table of passages: filled with another model's vectors, then swapped with the one in use.

The spare table and its indexes have the names of those in use with the prefix `spare_`. A row in
`spare_embedding_models` says whose vectors it is being filled with; without that row it is no longer needed, and is
dropped. All this needs a role that may create tables, unlike serving.
"""

from dataclasses import astuple

from psycopg.sql import SQL, Identifier

from vector_memory.domain import Fingerprint
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postgres import schema
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.dialect import as_postgres
from vector_memory.storage.postgres.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.postgres.vectors import add_passages
from vector_memory.storage.queries.insert import stored_passages
from vector_memory.storage.queries.memories import COLUMNS, memory_from_row
from vector_memory.storage.queries.pending import PendingChanges
from vector_memory.storage.queries.tags import TagChanges
from vector_memory.storage.records import Embedded, Memory

# ruff: noqa: D102 - the methods are described in storage.maintenance_api

SPARE = "spare_"
LEAVING = "leaving_"
TABLE = "memory_passages"
NAMES = ("memory_passages", "idx_passage")
"""What the names begin with that the spare table needs for itself."""

MISSING = """
m.embedding_model_id is not null and not exists (select 1 from spare_memory_passages where memory_id = m.id)
"""

# Each state has one bit for each number of a vector.
WITHOUT_STATES = "states is null or length(states) % ((vector_dims(embedding) + 7) / 8) <> 0"

# Renaming waits for readers that are under way, and new readers wait for it meanwhile, so it gives up soon.
SWAP_SOON = "select set_config('lock_timeout', '3s', true)"

NOTHING_TO_SWAP = "The vectors of the new model are gone: run `vector-memory reembed` again."

INDEXES = """
select i.relname from pg_index x join pg_class i on i.oid = x.indexrelid where x.indrelid = to_regclass(%s)
"""

GRANTS = """
select format(
    'grant %s on spare_memory_passages to %s', privilege_type,
    case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end
)
from pg_class, aclexplode(relacl) where pg_class.oid = to_regclass('memory_passages') and grantee <> relowner
"""
OWNER = """
select format('alter table spare_memory_passages owner to %I', pg_get_userbyid(relowner))
from pg_class where oid = to_regclass('memory_passages') and relowner <> current_user::regrole
"""


class PostgresSpareVectors:
    """`storage.maintenance_api.SpareVectors` over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def are_states_missing(self, *, spare: bool = False) -> bool:
        table = SPARE + TABLE if spare else TABLE
        return bool(fetch_value(self._connection, f"select exists (select 1 from {table} where {WITHOUT_STATES})"))

    def exist(self) -> bool:
        sql = "select to_regclass(quote_ident(current_schema()) || '.spare_embedding_models') is not null"
        return bool(fetch_value(self._connection, sql))

    def needed_for(self) -> Fingerprint | None:
        if not self.exist():
            return None
        sql = "select model, dimensions, precision, engine from spare_embedding_models"
        return fetch_one(self._connection, Fingerprint, sql)

    def begin(self, fingerprint: Fingerprint) -> None:
        execute = self._connection.execute
        execute("create table spare_embedding_models (model text, dimensions integer, precision text, engine text)")
        execute("insert into spare_embedding_models values (%s, %s, %s, %s)", astuple(fingerprint))
        statements = schema.PASSAGES.replace("{dimensions}", str(fingerprint.dimensions))
        for name in NAMES:
            statements = statements.replace(name, SPARE + name)
        for statement in filter(str.strip, statements.split(";")):
            execute(statement)
        for statement in [*fetch_column(self._connection, GRANTS), *fetch_column(self._connection, OWNER)]:
            execute(statement)

    def discard(self) -> None:
        if self.exist():
            self._connection.execute("delete from spare_embedding_models")

    def next_missing(self, after_id: int) -> Memory | None:
        sql = (
            f"select {as_postgres(COLUMNS)} from session_memories m where {MISSING} and m.id > %s order by m.id limit 1"
        )
        return fetch_one(self._connection, memory_from_row, sql, (after_id,))

    def is_missing(self, memory_id: int) -> bool:
        sql = f"select 1 from session_memories m where {MISSING} and m.id = %s"
        return fetch_value(self._connection, sql, (memory_id,)) is not None

    def count_missing(self) -> int:
        return int(fetch_value(self._connection, f"select count(*) from session_memories m where {MISSING}"))

    def count_recomputed(self) -> int:
        return int(fetch_value(self._connection, "select count(distinct memory_id) from spare_memory_passages"))

    def add(self, memory: Memory, embedded: Embedded) -> None:
        sql = "select id from memory_chunks where parent_id = %s order by chunk_index"
        passages = stored_passages(memory, fetch_column(self._connection, sql, (memory.id,)), embedded)
        add_passages(self._connection, memory, passages, embedded.vectors, embedded.states, table=SPARE + TABLE)

    def swap(self) -> None:
        connection = self._connection
        new = self.needed_for()
        if new is None:
            raise DamagedError(NOTHING_TO_SWAP)
        connection.execute(SWAP_SOON)
        connection.execute(f"update session_memories m set embedding_model_id = null where {MISSING}")
        swap_tables(connection)
        connection.execute("update namespace set dimensions = %s, epoch = epoch + 1", (new.dimensions,))
        connection.execute(
            """
            insert into embedding_models (id, model, dimensions, precision, engine) values (1, %s, %s, %s, %s)
            on conflict (id) do update set (model, dimensions, precision, engine)
                = (excluded.model, excluded.dimensions, excluded.precision, excluded.engine)
            """,
            astuple(new),
        )
        state = connection.state
        state.model_id, state.fingerprint, state.dimensions = 1, new, new.dimensions
        TagChanges(PostgresConnection(connection)).clear_tag_vectors()
        PendingChanges(PostgresConnection(connection)).end_leases()
        self.discard()

    def erase_step(self) -> bool:
        # Dropping a table takes no longer if it is large.
        if not self.exist() or self.needed_for() is not None:
            return False
        self._connection.execute(SWAP_SOON)
        self._connection.execute("drop table spare_memory_passages, spare_embedding_models")
        return True


def swap_tables(connection: Connection) -> None:
    """Swap the names of the spare table and its indexes with those of the table in use."""
    tables = (TABLE, SPARE + TABLE)
    indexes = [name for table in tables for name in fetch_column(connection, INDEXES, (table,))]
    for kind, names in (("index", indexes), ("table", tables)):
        for name in names:
            rename(connection, kind, name, LEAVING + name)
        for name in names:
            rename(connection, kind, LEAVING + name, other_name(name))


def rename(connection: Connection, kind: str, old: str, new: str) -> None:
    """Rename an index or a table."""
    names = {"old": Identifier(old), "new": Identifier(new)}
    connection.execute(SQL(f"alter {kind} {{old}} rename to {{new}}").format(**names).as_string())


def other_name(name: str) -> str:
    """Return the name of the same table or index in the other set."""
    return name.removeprefix(SPARE) if name.startswith(SPARE) else SPARE + name
