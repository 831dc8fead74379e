#!/usr/bin/env bash
# usearch 2.26.6: a search for several queries returns a rectangle. Where a query has fewer matches than requested, the
# rest of its row holds key 0, which is a valid key and may be a stored one; only `counts` tells. faiss-cpu 1.15.1
# fills with -1 (and returns -1 just the same for a vector whose own id is -1).
# Seen: usearch [7, 0, 0] with counts 1; faiss [7, -1, -1], and [-1, -1, -1] where the stored id is -1.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet usearch==2.26.6 faiss-cpu==1.15.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import faiss
import numpy as np
from usearch.index import Index

vector = np.array([[1, 0]], np.float32)
index = Index(ndim=2, metric="cos", dtype="f32")
index.add(7, vector[0])
found = index.search(np.vstack([vector, vector]), 3)


def by_faiss(number: int) -> list[int]:
    other = faiss.IndexIDMap(faiss.IndexFlatIP(2))
    other.add_with_ids(vector, np.array([number]))
    return other.search(vector, 3)[1][0].tolist()


seen = found.keys[0].tolist(), int(found.counts[0]), by_faiss(7), by_faiss(-1)
print(seen)
if seen != ([7, 0, 0], 1, [7, -1, -1], [-1, -1, -1]):
    raise SystemExit("usearch or faiss fills short answers in another way now")
PYTHON
