#!/usr/bin/env bash
# sqlite-vec 0.1.9: `rowid in (3, 4)` beside a KNN chooses among rows 3 and 4. A list with a single id is compared only
# after the k nearest were taken, so that `rowid in (4)` returns nothing, unless row 4 is among them anyway. SQLite
# turns a list of one value into an equality, and the table does not look at equalities of ids.
# Seen: [3, 4] for two ids, [] for one, [4] for the same id from a subquery.
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
connection.execute("create virtual table notes using vec0(embedding float[1])")
for number in range(5):
    connection.execute("insert into notes(rowid, embedding) values (?, ?)", (number, f"[{number}]"))


def nearest(condition: str) -> list[int]:
    sql = f"select rowid from notes where embedding match '[0]' and k = 2 and rowid {condition}"
    return [row[0] for row in connection.execute(sql)]


seen = {condition: nearest(condition) for condition in ("in (3, 4)", "in (4)", "in (select 4)")}
print(seen)
if seen != {"in (3, 4)": [3, 4], "in (4)": [], "in (select 4)": [4]}:
    raise SystemExit("sqlite-vec handles a list of one id in another way now")
PYTHON
