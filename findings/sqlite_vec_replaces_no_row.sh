#!/usr/bin/env bash
# sqlite-vec 0.1.9: INSERT OR REPLACE, the usual way to store a vector again, fails on a vec0 table with a UNIQUE error
# although SQLite documents the clause for all tables; a text key cannot be updated either. The value of a metadata
# column must have the declared type to the letter: a FLOAT column refuses 2, which a REAL column of SQLite converts.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlite-vec==0.1.9 apsw==3.54.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import apsw
import sqlite_vec

database = apsw.Connection(":memory:")
database.enable_load_extension(True)
database.load_extension(sqlite_vec.loadable_path())
database.execute("create virtual table notes using vec0(name text primary key, embedding float[2], weight float)")
database.execute("insert into notes values ('a', '[1, 2]', 1.5)")


def error(sql):
    try:
        database.execute(sql)
    except apsw.Error as raised:
        print(sql, "->", raised)
        return str(raised)
    raise SystemExit(f"{sql} was accepted")


assert "UNIQUE" in error("insert or replace into notes values ('a', '[3, 4]', 1.5)")
assert "primary key" in error("update notes set name = 'b'")
assert "received INTEGER" in error("insert into notes values ('c', '[1, 2]', 2)")
PYTHON
