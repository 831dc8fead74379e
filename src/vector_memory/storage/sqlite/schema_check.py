"""Compares the schema of a file with the one that the migrations create.

Another program's view or table can have the name of one of ours, its triggers would run in our transactions, and
sqlite-vec crashes without its shadow tables. So this is checked before anything else is read. The file may contain
other tables, views and indexes: our statements never use them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import apsw

from vector_memory.storage.sqlite.schema import METADATA_COLUMNS, VEC0_TABLES
from vector_memory.storage.sqlite.vec0 import shadow_tables

SPARE = "spare_"
"""Prefix of the tables that are filled with another model's vectors (`storage.sqlite.reembedding`)."""

SPARE_TABLES = ("memory_passages", "token_states", *VEC0_TABLES)
"""The tables that have a spare copy."""


class SchemaObject(NamedTuple):
    """A table, index, view or trigger. `table`: the table that it belongs to."""

    type: str
    table: str
    sql: str

    def is_like(self, other: "SchemaObject | None") -> bool:
        """Return whether both were created by the same statement, apart from formatting."""
        if other is None or self[:2] != other[:2]:
            return False
        return self.sql == other.sql or normal(self.sql) == normal(other.sql)


Schema = Mapping[str, SchemaObject]
"""By name."""


@dataclass(frozen=True, slots=True)
class SchemaFaults:
    """Names of ours that are missing or defined differently, and foreign triggers on our tables.

    `spare`: the spare tables are incomplete; their content can be recomputed.
    """

    wrong: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    spare: bool = False

    def __bool__(self) -> bool:
        return bool(self.wrong or self.triggers or self.spare)


def read_schema(connection: apsw.Connection) -> dict[str, SchemaObject]:
    """Return everything in the file that a statement created, as SQLite stores it."""
    rows = connection.execute("select type, name, tbl_name, sql from sqlite_schema where sql is not null").fetchall()
    return {str(name): SchemaObject(str(kind), str(table), str(sql)) for kind, name, table, sql in rows}


def schema_faults(connection: apsw.Connection, expected: Schema) -> SchemaFaults:
    """Compare the schema of the file with the expected one."""
    found = read_schema(connection)
    main = part(found, spare=False)
    wanted = part(expected, spare=False)
    return SchemaFaults(
        wrong=differences(main, wanted) | wrong_shadows(connection, main, ""),
        triggers={name for name, item in main.items() if item.type == "trigger" and name not in wanted},
        spare=SPARE + "embedding_models" in found and is_spare_wrong(connection, found, wanted),
    )


def part(schema: Schema, *, spare: bool) -> dict[str, SchemaObject]:
    """Return the tables in use, or the spare tables, under the same names.

    When the tables are swapped, their indexes and triggers keep their names, so `spare_` is ignored in these.
    """
    return {
        name.removeprefix(SPARE): SchemaObject(item.type, item.table.removeprefix(SPARE), item.sql)
        for name, item in schema.items()
        if item.table.startswith(SPARE) == spare
    }


def differences(found: Schema, wanted: Schema) -> set[str]:
    """Return the names that are missing or defined differently, except for sqlite-vec's shadow tables."""
    return {name for name, item in wanted.items() if not is_shadow(name) and not item.is_like(found.get(name))}


def wrong_shadows(connection: apsw.Connection, found: Schema, prefix: str) -> set[str]:
    """Return the names of shadow tables that are missing or lack a column."""
    return {
        name
        for table in VEC0_TABLES
        for suffix, columns in shadow_tables(METADATA_COLUMNS[table]).items()
        if (name := f"{table}_{suffix}") not in found
        or found[name].type != "table"
        or not columns <= columns_of(connection, prefix + name)
    }


def is_spare_wrong(connection: apsw.Connection, found: Schema, wanted: Schema) -> bool:
    """Return whether the spare tables differ from those in use."""
    spare = part(found, spare=True)
    expected_spare = {name: item for name, item in wanted.items() if item.table in SPARE_TABLES}
    is_table = spare["embedding_models"].type == "table"
    return not is_table or bool(differences(spare, expected_spare) or wrong_shadows(connection, spare, SPARE))


def columns_of(connection: apsw.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    return {str(name).lower() for (name,) in connection.execute("select name from pragma_table_info(?)", (table,))} | {
        "rowid"
    }


def is_shadow(name: str) -> bool:
    """Return whether this is the name of a shadow table of sqlite-vec."""
    return any(name.startswith(f"{table}_") for table in VEC0_TABLES)


def normal(sql: str) -> str:
    """Return a statement without what does not matter: quotes, white space, case, `spare_`, vector lengths."""
    sql = re.sub(r"\s+", " ", sql.replace('"', "").lower())
    sql = re.sub(r" ?([(),=;]) ?", r"\1", sql)
    return re.sub(r"(float|bit)\[\d+\]", r"\1[]", re.sub(rf"\b{SPARE}", "", sql)).strip()
