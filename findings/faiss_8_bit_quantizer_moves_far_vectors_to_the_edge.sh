#!/usr/bin/env bash
# faiss-cpu 1.15.1: an index with 8-bit scalar quantization learns a range for each dimension from its training
# vectors. A vector outside of it, added later, is moved to the edge without an error: [5, 5] becomes about [1, 1], and
# is then as near to the query [1, 1] as the vector [1, 1] itself. Exactly this happens to a memory that grows into new
# topics.
# Seen: [5, 5] is stored as [1, 1] and comes first, with a distance below .001 instead of 32.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet faiss-cpu==1.15.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import faiss
import numpy as np

index = faiss.IndexScalarQuantizer(2, faiss.ScalarQuantizer.QT_8bit)
index.train(np.array([[0, 0], [1, 1]], np.float32))
index.add(np.array([[5, 5], [0.5, 0.5], [1, 1]], np.float32))
distances, ids = index.search(np.array([[1, 1]], np.float32), 3)
stored = index.reconstruct(0).round(1).tolist()
print("stored as", stored, "| order", ids[0].tolist(), "| distances", distances[0].tolist())
if stored != [1.0, 1.0] or ids[0][0] != 0 or distances[0][0] > 0.001:
    raise SystemExit("faiss keeps vectors outside of the trained range now, or refuses them")
PYTHON
