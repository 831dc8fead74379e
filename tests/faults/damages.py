"""Damages to a memory's file, made with a seed: to the tables through SQL, and to bytes."""

import contextlib
import random
from pathlib import Path

import apsw

from vector_memory.storage.sqlite.vec0 import load_vector_search

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r)"
VALUES = (
    "null", "'x'", "x'00ff'", "-1", "-5", "0", "1.5", "9223372036854775807", "-9223372036854775808", "''", "x''",
    "zeroblob(100000)", "cast(x'ff80' as text)", "'[1]'", "'{}'", "'[]'", "'[{}]'", "'2020'", "'\"\\ud800\"'",
    "replace(hex(zeroblob(3000)), '0', '[')", "char(0)", "1e300", "'1'", "1000000000000", "16777216",
)  # fmt: skip

NAMES = "select name from sqlite_schema where sql is not null and name not like 'sqlite_%'"
COLUMNS = """
    select m.name, c.name from sqlite_schema m, pragma_table_info(m.name) c
    where m.type = 'table' and m.rootpage > 0 and
"""


def damage(path: Path, source: random.Random) -> list[str]:
    """Damage a file in one to three ways, and return the damages."""
    kinds = (set_values, set_values, set_values, change_blob, delete_rows, change_schema, change_schema, flip_bytes)
    return [source.choice(kinds)(path, source) for _ in range(source.choice((1, 1, 1, 2, 3)))]


def flip_bytes(path: Path, source: random.Random) -> str:
    """Overwrite some bytes anywhere."""
    size = path.stat().st_size
    place, length = source.randrange(size), source.choice((1, 1, 4, 16, 400))
    with path.open("r+b") as file:
        file.seek(place)
        file.write(source.randbytes(length))
    return f"{length} bytes at {place}"


def set_values(path: Path, source: random.Random) -> str:
    """Put a value of any type into a column, of all rows or of one."""
    table, column = chosen(path, source, f"{COLUMNS} true")
    rows = source.choice(("", f" where rowid in (select rowid from {table} order by random() limit 1)"))
    return run(path, f"update {table} set {column} = {source.choice(VALUES)}{rows}")


def change_blob(path: Path, source: random.Random) -> str:
    """Shorten, lengthen or zero what should be a blob."""
    table, column = chosen(path, source, f"{COLUMNS} lower(c.type) = 'blob'")
    value = source.choice(
        (f"substr({column}, 2)", f"zeroblob(length({column}))", f"cast({column} || {column} as blob)", f"hex({column})")
    )
    return run(path, f"update {table} set {column} = {value}")


def delete_rows(path: Path, source: random.Random) -> str:
    """Remove all rows of a table, or some."""
    (table,) = chosen(path, source, f"{NAMES} and type = 'table' and rootpage > 0")
    return run(path, f"delete from {table}{source.choice(('', ' where rowid % 2', ' where rowid = 1'))}")


def change_schema(path: Path, source: random.Random) -> str:
    """Drop, rename or replace what has been created, or add something."""
    (name,) = chosen(path, source, NAMES)
    (kind,) = chosen(path, source, f"select type from sqlite_schema where name = '{name}'")
    changes = [f"drop {kind} {name}"]
    if kind == "table":
        changes += [
            f"alter table {name} rename to other",
            f"alter table {name} add column extra text",
            f"drop table {name}; create table {name} (a, b)",
            f"drop table {name}; create view {name} as {ENDLESS} select n as id, n as content from r",
            f"create trigger other after insert on {name} begin insert into {name} default values; end",
            f"create trigger other before delete on {name} begin select raise(ignore); end",
            f"create view other as {ENDLESS} select * from r, {name}",
            f"create unique index other on {name} (1)",
        ]
    return run(path, source.choice(changes))


def chosen(path: Path, source: random.Random, sql: str) -> tuple[str, ...]:
    """Return one row of the schema."""
    with contextlib.suppress(apsw.CorruptError), connected(path) as connection:
        if rows := connection.execute(sql).fetchall():
            return tuple(map(str, source.choice(rows)))
    return ("session_memories", "content")[: 1 + sql.count("c.name")]


def run(path: Path, sql: str) -> str:
    """Run statements as far as that is possible in a file that may be damaged already."""
    with connected(path) as connection:
        try:
            connection.execute(sql)
        except apsw.Error as error:
            return f"failed: {sql} ({type(error).__name__})"
    return sql


class connected:  # noqa: N801 - reads as a function
    """A connection without foreign keys and without protection, closed at the end."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("legacy_alter_table", True)
        self._connection.pragma("ignore_check_constraints", True)
        load_vector_search(self._connection)

    def __enter__(self) -> apsw.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()
