#!/usr/bin/env bash
# sqlite-vec 0.1.9, the functions around its tables: vec_to_json writes six decimals, so small components become 0 and a
# vector does not survive the way through JSON. vec_add of int8 vectors wraps around, as 127 + 1 is -128. The 'unit'
# quantization sends -1 to -128 but 1 to 126, so a vector and its opposite are not opposite afterwards.
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


def value(expression):
    (found,) = database.execute(f"select {expression}").fetchall()[0]
    print(expression, "->", found)
    return found


assert value("vec_to_json('[0.0000001, 1]')") == "[0.000000,1.000000]"
assert value("vec_to_json(vec_add(vec_int8('[127, 1]'), vec_int8('[1, 1]')))") == "[-128,2]"
assert value("vec_to_json(vec_quantize_int8('[1, -1]', 'unit'))") == "[126,-128]"
PYTHON
