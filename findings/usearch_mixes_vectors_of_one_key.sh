#!/usr/bin/env bash
# usearch 2.26.6: an index with several vectors for a key keeps them as bfloat16 unless told otherwise. Reading them back
# gives rows that nobody stored: the first row is the first half of the first vector and the first half of the second.
# With dtype="f32" the same calls return both vectors.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet usearch==2.26.6 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from usearch.index import Index

vectors = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
read = {}
for dtype in (None, "f32"):
    index = Index(ndim=4, metric="cos", multi=True, dtype=dtype)
    for vector in vectors:
        index.add(1, vector)
    read[dtype] = index.get(1)
    print(index.dtype, read[dtype][0].tolist())
assert read[None][0].tolist() == [1, 2, 5, 6]
assert np.array_equal(read["f32"], vectors)
PYTHON
