"""What roles may do: one migrates and owns the tables, others serve, others only read."""

from typing import LiteralString

from psycopg import errors as postgres
from psycopg.sql import SQL, Identifier

from vector_memory.errors import NotFoundError
from vector_memory.storage.postgres.connection import Connection

READING = SQL("select")
WRITING = SQL("select, insert, update, delete")

REVOKE: tuple[LiteralString, ...] = (
    "revoke all on all tables in schema {schema} from {role}",
    "alter default privileges in schema {schema} revoke all on tables from {role}",
    "revoke usage on schema {schema} from {role}",
)
GRANT: tuple[LiteralString, ...] = (
    "grant usage on schema {schema} to {role}",
    "grant {rights} on all tables in schema {schema} to {role}",
    "alter default privileges in schema {schema} grant {rights} on tables to {role}",
)


def rights(*, may_write: bool) -> SQL:
    """Return what a role may do with the tables of a memory."""
    return WRITING if may_write else READING


def grant(connection: Connection, schema: str, role: str, allowed: SQL | None) -> None:
    """Let a role use the tables of a schema, also those that the current role creates later; None: not any more.

    Raises NotFoundError if the role does not exist.
    """
    names = {"schema": Identifier(schema), "role": Identifier(role), "rights": allowed or READING}
    try:
        for statement in (*REVOKE, *(GRANT if allowed else ())):
            connection.execute(SQL(statement).format(**names).as_string(connection))
    except postgres.UndefinedObject:
        raise NotFoundError(f'There is no role "{role}" in this database server: create it first.') from None
