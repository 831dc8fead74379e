#!/usr/bin/env bash
# sqlite-vec 0.1.9: short texts of a metadata column stand in the row, longer ones beside it, and 12 bytes is where
# that changes. One row whose text has exactly 12 bytes makes each range filter of the column end with an error,
# whichever rows it would choose; equality stays right.
# Seen: 11 and 13 bytes are filtered, 12 bytes raise 'Could not filter metadata fields'.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlite-vec==0.1.9 apsw==3.54.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import apsw
import sqlite_vec


def filtered(text: str, condition: str) -> object:
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute("create virtual table notes using vec0(embedding float[1], day text)")
    connection.executemany(
        "insert into notes(rowid, embedding, day) values (?, '[1]', ?)", [(1, "2026-01-01"), (2, text)]
    )
    try:
        sql = f"select rowid from notes where embedding match '[1]' and k = 9 and day {condition}"
        return sorted(row[0] for row in connection.execute(sql))
    except apsw.SQLError as error:
        return str(error)


seen = {length: filtered("9" * length, "> '2026'") for length in (11, 12, 13)}
equal = filtered("9" * 12, "= '999999999999'")
print(seen, "| equal:", equal)
if seen != {11: [1, 2], 12: "Could not filter metadata fields", 13: [1, 2]} or equal != [2]:
    raise SystemExit("sqlite-vec filters texts in another way now")
PYTHON
