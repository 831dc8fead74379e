#!/usr/bin/env bash
# sqlite-vec 0.1.9: with a partition key, `k = 1 and project in ('a', 'b')` gives one row for each partition of the
# list, two here, instead of the one nearest row of both. Without the list the same k gives one row.
# Seen: 2 rows with the list, 1 without.
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
connection.execute("create virtual table notes using vec0(project text partition key, embedding float[2])")
rows = [(1, "a", "[1, 0]"), (2, "a", "[1, 1]"), (3, "b", "[9, 9]")]
connection.executemany("insert into notes(rowid, project, embedding) values (?, ?, ?)", rows)
search = "select rowid from notes where embedding match '[1, 0]' and k = 1"
everywhere = [row[0] for row in connection.execute(search)]
listed = [row[0] for row in connection.execute(f"{search} and project in ('a', 'b')")]
print("without a list:", everywhere, "with a list:", listed)
if (everywhere, listed) != ([1], [1, 3]):
    raise SystemExit("sqlite-vec counts k in another way now")
PYTHON
