"""Notices tables, indexes and triggers that are not those of this release, before anything else is read.

sqlite-vec crashes without its own tables, a view in place of a table can run forever, and another program's triggers
would run in our transactions. The file may contain other tables, views and indexes: our statements never use them.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import apsw


class SchemaObject(NamedTuple):
    """A table, index, view or trigger, and the statement that creates it, as `normal` returns it."""

    type: str
    name: str
    sql: str


Schema = frozenset[SchemaObject]


def read_schema(connection: apsw.Connection) -> Schema:
    """Return everything in the file that a statement created."""
    rows = connection.execute("select type, name, sql from sqlite_schema where sql is not null").fetchall()
    return frozenset(SchemaObject(str(kind), str(name), normal(str(sql))) for kind, name, sql in rows)


def altered_names(connection: apsw.Connection, expected: Schema) -> set[str]:
    """Return the names of ours that are missing or defined differently, and those of unknown triggers."""
    found = read_schema(connection)
    return {item.name for item in (expected - found) | {item for item in found - expected if item.type == "trigger"}}


@lru_cache(maxsize=256)
def normal(sql: str) -> str:
    """Return a statement without what does not matter: quotes, white space, case, the lengths of vectors."""
    sql = re.sub(r"\s+", " ", sql.replace('"', "").lower())
    sql = re.sub(r" ?([(),=;]) ?", r"\1", sql)
    return re.sub(r"(float|bit)\[\d+\]", r"\1[]", re.sub(r"\bmain\.", "", sql)).strip()
