#!/usr/bin/env bash
# lancedb 0.40.0: merge_insert on a key is the way to update or insert. Two new rows with one key in the same call are
# both inserted without an error, so the key stands twice in the table.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lancedb==0.40.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import lancedb

table = lancedb.connect("memory").create_table("notes", [{"id": 1, "text": "first"}])


def merge(rows):
    merging = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merging.execute(rows)


result = merge([{"id": 7, "text": "draft"}, {"id": 7, "text": "final"}])
stored = sorted(row["text"] for row in table.to_arrow().to_pylist() if row["id"] == 7)
print(result.num_inserted_rows, stored)
assert stored == ["draft", "final"]
PYTHON
