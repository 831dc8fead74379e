#!/usr/bin/env bash
# apsw 3.54.1.0 and Python's sqlite3 with numpy 2.4.6: numpy.int64, int32, float32 and bool_ have a buffer, so they are
# bound as BLOBs without an error; float64 and str_ are subclasses of float and str and are right. A row stored with id
# np.int64(7) is not found by `id = 7`, and the other way round. Ids from arrays of vectors are of this type.
# Seen: blob for four types, real and text for two, no row for an id from an array.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet apsw==3.54.1.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import sqlite3

import apsw
import numpy as np

values = [np.int64(7), np.int32(7), np.float32(7), np.bool_(1), np.float64(7), np.str_("7")]
types = {}
for library, connection in (("apsw", apsw.Connection(":memory:")), ("sqlite3", sqlite3.connect(":memory:"))):
    types[library] = [next(iter(connection.execute("select typeof(?)", (value,))))[0] for value in values]
    connection.execute("create table notes(id integer primary key)")
    connection.execute("insert into notes values (7)")
    types[library].append(len(list(connection.execute("select * from notes where id = ?", (np.int64(7),)))))
print(types)
expected = ["blob", "blob", "blob", "blob", "real", "text", 0]
if types != {"apsw": expected, "sqlite3": expected}:
    raise SystemExit("NumPy's numbers are bound in another way now")
PYTHON
