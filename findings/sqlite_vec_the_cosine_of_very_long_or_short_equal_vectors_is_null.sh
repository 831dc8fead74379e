#!/usr/bin/env bash
# sqlite-vec 0.1.9: the lengths of both vectors are summed in 32 bits, so that the cosine distance of a vector to
# itself is NULL when its numbers are about 1e20 or 1e-23, which 32-bit numbers hold. Raw sums of embeddings, sensor
# values and un-normalized averages can be so large. NULL sorts first in SQLite.
# Seen: NULL at 1e20 and at 1e-23, about 0 at 1e15 and 1e-15.
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
distances = {
    number: connection.execute("select vec_distance_cosine(?1, ?1)", (f"[{number}, {number}]",)).get
    for number in ("1e20", "1e15", "1e-15", "1e-23")
}
print(distances)
nulls = [number for number, distance in distances.items() if distance is None]
if nulls != ["1e20", "1e-23"] or abs(distances["1e15"]) > 1e-6 or abs(distances["1e-15"]) > 1e-6:
    raise SystemExit("sqlite-vec computes the cosine in another way now")
PYTHON
