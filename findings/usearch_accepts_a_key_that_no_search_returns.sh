#!/usr/bin/env bash
# usearch 2.26.6: keys are unsigned 64-bit numbers, and the highest of them is accepted, counted and reported as
# contained, but no search returns its vector, not even as the only one. Adding the key -1 stores this very key.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet usearch==2.26.6 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from usearch.index import Index

vector = np.array([1, 2, 3, 4], np.float32)
seen = []
for key in (2**64 - 1, -1, 2**64 - 2):
    index = Index(ndim=4, metric="cos", dtype="f32")
    index.add(key, vector)
    seen.append((len(index), 2**64 - 1 in index, index.search(vector, 3).keys.tolist()))
    print(key, *seen[-1])
assert seen == [(1, True, []), (1, True, []), (1, False, [2**64 - 2])]
PYTHON
