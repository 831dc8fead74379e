#!/usr/bin/env bash
# sqlite-vec 0.1.9: `update ... set rowid = 77 where rowid = 1` on a vec0 table raises nothing and counts one changed
# row, but the row keeps its id. A migration that renumbers rows leaves all vectors under their old numbers.
# Seen: 1 change, ids [1] afterwards.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlite-vec==0.1.9 apsw==3.54.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import apsw
import sqlite_vec

connection = apsw.Connection(":memory:")
connection.enable_load_extension(True)
connection.load_extension(sqlite_vec.loadable_path())
connection.execute("create virtual table notes using vec0(embedding float[2])")
connection.execute("insert into notes(rowid, embedding) values (1, '[1, 0]')")
connection.execute("update notes set rowid = 77 where rowid = 1")
seen = connection.changes(), [row[0] for row in connection.execute("select rowid from notes")]
print("changes, ids:", seen)
if seen != (1, [1]):
    raise SystemExit("sqlite-vec changes the id of a row or refuses to now")
PYTHON
