"""A second table of passages: filled with another model's vectors, then swapped with the one in use.

The spare table and its indexes have the names of those in use with the prefix `spare_`. All this needs a role that may
create tables, unlike serving.
"""

from psycopg.sql import SQL, Identifier

from vector_memory.domain import Fingerprint
from vector_memory.storage.postgres import schema
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch_column
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.queries.reembedding import MISSING, SPARE, SpareVectors, other_name

# ruff: noqa: D102 - the methods are described in storage.queries.reembedding

LEAVING = "leaving_"
TABLE = "memory_passages"
NAMES = ("memory_passages", "idx_passage")
"""What the names begin with that the spare table needs for itself."""

# Each state has one bit for each number of a vector.
WITHOUT_STATES = "states is null or mod(length(states), (vector_dims(embedding) + 7) / 8) <> 0"

# Renaming waits for readers that are under way, and new readers wait for it meanwhile, so it gives up soon.
SWAP_SOON = "select set_config('lock_timeout', '3s', true)"

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


class PostgresSpareVectors(SpareVectors):
    """The spare vectors of a schema."""

    connection: PostgresConnection

    def are_states_missing(self, *, spare: bool = False) -> bool:
        table = SPARE + TABLE if spare else TABLE
        return bool(self.connection.fetch_value(f"select exists (select 1 from {table} where {WITHOUT_STATES})"))

    def exist(self) -> bool:
        sql = "select to_regclass(quote_ident(current_schema()) || '.spare_embedding_models') is not null"
        return bool(self.connection.fetch_value(sql))

    def make_room(self, dimensions: int) -> None:
        execute = self.connection.raw.execute
        execute("create table spare_embedding_models (model text, dimensions integer, precision text, engine text)")
        statements = schema.PASSAGES.replace("{dimensions}", str(dimensions))
        for name in NAMES:
            statements = statements.replace(name, SPARE + name)
        for statement in filter(str.strip, statements.split(";")):
            execute(statement)
        for statement in [*fetch_column(self.connection.raw, GRANTS), *fetch_column(self.connection.raw, OWNER)]:
            execute(statement)

    def swap_tables(self, new: Fingerprint) -> None:
        self.connection.raw.execute(SWAP_SOON)
        self.connection.raw.execute(f"update session_memories m set embedding_model_id = null where {MISSING}")
        swap_tables(self.connection.raw)
        self.connection.raw.execute("update namespace set dimensions = %s", (new.dimensions,))
        state = self.connection.raw.state
        state.model_id, state.fingerprint, state.dimensions = 1, new, new.dimensions

    def erase_some(self) -> None:
        # Dropping a table takes no longer if it is large.
        self.connection.raw.execute(SWAP_SOON)
        # In the order in which readers lock what the spare table refers to: to drop it locks them, too, the last first.
        self.connection.raw.execute("lock table session_memories, memory_chunks in access exclusive mode")
        self.connection.raw.execute("drop table spare_memory_passages, spare_embedding_models")


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
