#!/usr/bin/env bash
# usearch 2.26.6: an index with dtype="i8" scales each vector to length 1 before it is rounded, whatever the metric. So
# inner products do not depend on lengths any more, and by squared L2 the vectors [1, 0], [10, 0] and [1000, 0] have
# the distance 0 from each other. With "f32" the same calls tell them apart.
# Seen: one distance for all three with "i8", three with "f32", for both metrics.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet usearch==2.26.6 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from usearch.index import Index


def distances(metric: str, dtype: str) -> int:
    """Return how many different distances three vectors of one direction have from the first."""
    index = Index(ndim=2, metric=metric, dtype=dtype)
    for key, length in enumerate((1, 10, 1000)):
        index.add(key, np.array([length, 0], np.float32))
    return len({float(match.distance) for match in index.search(np.array([1, 0], np.float32), 3)})


seen = {(metric, dtype): distances(metric, dtype) for metric in ("ip", "l2sq") for dtype in ("i8", "f32")}
print(seen)
if seen != {("ip", "i8"): 1, ("ip", "f32"): 3, ("l2sq", "i8"): 1, ("l2sq", "f32"): 3}:
    raise SystemExit("usearch stores int8 vectors in another way now")
PYTHON
