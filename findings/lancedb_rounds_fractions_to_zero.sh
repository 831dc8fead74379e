#!/usr/bin/env bash
# lancedb 0.40.0 chooses the type of a vector column by the first rows. If these happen to hold whole numbers from 0 to
# 255, as a one-hot vector does, the column becomes bytes. Later vectors with fractions are accepted without a word and
# lose them: a vector [0.5, 0.75] is stored as [0, 0]. A first row with a negative number makes a column of floats.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lancedb==0.40.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import lancedb

database = lancedb.connect("memory")
table = database.create_table("notes", [{"id": 1, "vector": [1, 0]}])
kind = str(table.schema.field("vector").type)
table.add([{"id": 2, "vector": [0.5, 0.75]}])
stored = {row["id"]: list(row["vector"]) for row in table.to_arrow().to_pylist()}
other = database.create_table("others", [{"id": 1, "vector": [1, -1]}])
print(kind, stored, other.schema.field("vector").type)
assert "uint8" in kind
assert stored == {1: [1, 0], 2: [0, 0]}
assert "float" in str(other.schema.field("vector").type)
PYTHON
