"""Comparing the schema of a file with the one that the migrations make.

A view or a table of another program can have the name of one of ours, a trigger of another program runs in our
transactions, and sqlite-vec crashes without its shadow tables. So this is checked before anything else is read.
Other tables, views and indexes may be in the file: no statement of ours touches them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import apsw

from vector_memory.storage.sqlite.schema import VECTOR_TABLES
from vector_memory.storage.sqlite.vec0 import SHADOW_TABLES

SPARE = "spare_"
"""Begins the names of the tables that another model's vectors are made in (`storage.reembedding`)."""

TWINS = ("memory_passages", *VECTOR_TABLES)
"""The tables that have spare twins."""


class Thing(NamedTuple):
    """A table, index, view or trigger; `table` is the one it is of."""

    type: str
    table: str
    sql: str

    def is_like(self, other: "Thing | None") -> bool:
        """Tell whether the other one is made by the same statement, written in whatever way."""
        if other is None or self[:2] != other[:2]:
            return False
        return self.sql == other.sql or normal(self.sql) == normal(other.sql)


Schema = Mapping[str, Thing]
"""By name."""


@dataclass(frozen=True, slots=True)
class SchemaFaults:
    """Names of ours that are missing or are something else, and triggers of others on tables of ours.

    `spare`: tables for another model's vectors that are not whole; they hold nothing that cannot be made again.
    """

    wrong: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    spare: bool = False

    def __bool__(self) -> bool:
        return bool(self.wrong or self.triggers or self.spare)


def read_schema(connection: apsw.Connection) -> dict[str, Thing]:
    """Return everything in the file that has been created by a statement, as SQLite keeps it."""
    rows = connection.execute("select type, name, tbl_name, sql from sqlite_schema where sql is not null").fetchall()
    return {str(name): Thing(str(kind), str(table), str(sql)) for kind, name, table, sql in rows}


def schema_faults(connection: apsw.Connection, expected: Schema) -> SchemaFaults:
    """Compare the schema of the file with the expected one."""
    found = read_schema(connection)
    main = part(found, spare=False)
    wanted = part(expected, spare=False)
    return SchemaFaults(
        wrong=differences(main, wanted) | wrong_shadows(connection, main, ""),
        triggers={name for name, thing in main.items() if thing.type == "trigger" and name not in wanted},
        spare=SPARE + "embedding_models" in found and is_spare_wrong(connection, found, wanted),
    )


def part(schema: Schema, *, spare: bool) -> dict[str, Thing]:
    """Return what is in use, or what is of the spare tables, with the same names.

    The names of indexes and triggers go from twin to twin when the tables are exchanged.
    """
    return {
        name.removeprefix(SPARE): Thing(thing.type, thing.table.removeprefix(SPARE), thing.sql)
        for name, thing in schema.items()
        if thing.table.startswith(SPARE) == spare
    }


def differences(found: Schema, wanted: Schema) -> set[str]:
    """Return the names of what is missing, or is something else. sqlite-vec's own tables are left aside."""
    return {name for name, thing in wanted.items() if not is_shadow(name) and not thing.is_like(found.get(name))}


def wrong_shadows(connection: apsw.Connection, found: Schema, prefix: str) -> set[str]:
    """Return the names of shadow tables that are missing, or lack a column."""
    return {
        name
        for table in VECTOR_TABLES
        for suffix, columns in SHADOW_TABLES.items()
        if (name := f"{table}_{suffix}") not in found
        or found[name].type != "table"
        or not columns <= columns_of(connection, prefix + name)
    }


def is_spare_wrong(connection: apsw.Connection, found: Schema, wanted: Schema) -> bool:
    """Tell whether the spare tables are not twins of those in use."""
    spare = part(found, spare=True)
    twins = {name: thing for name, thing in wanted.items() if thing.table in TWINS}
    is_table = spare["embedding_models"].type == "table"
    return not is_table or bool(differences(spare, twins) or wrong_shadows(connection, spare, SPARE))


def columns_of(connection: apsw.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    return {str(name).lower() for (name,) in connection.execute("select name from pragma_table_info(?)", (table,))} | {
        "rowid"
    }


def is_shadow(name: str) -> bool:
    """Tell whether a name is that of a table of sqlite-vec's own."""
    return any(name.startswith(f"{table}_") for table in VECTOR_TABLES)


def normal(sql: str) -> str:
    """Return a statement without what makes no difference: quotes, white space, capitals, twins, vectors' lengths."""
    sql = re.sub(r"\s+", " ", sql.replace('"', "").lower())
    sql = re.sub(r" ?([(),=;]) ?", r"\1", sql)
    return re.sub(r"float\[\d+\]", "float[]", re.sub(rf"\b{SPARE}", "", sql)).strip()
