#!/usr/bin/env bash
# voyager 2.2.3, inner product: the distance that a query returns is 1 minus the product. get_distance for the same two
# vectors on the same index returns another number, below the query's, once the index has a longer vector than the first.
# So a threshold learnt from one does not hold for the other.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet voyager==2.2.3 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from voyager import Index, Space

index = Index(Space.InnerProduct, num_dimensions=2)
first, second = np.array([1, 0], np.float32), np.array([0, 3], np.float32)
index.add_item(first)
alone = index.get_distance(first, first)
index.add_item(second)
labels, distances = index.query(first, k=2)
asked = dict(zip(labels.tolist(), distances.tolist()))[0]
told = index.get_distance(first, first)
print(f"query: {asked}, 1 - product: {1 - float(first @ first)}, get_distance: {told}, before the longer one: {alone}")
assert asked == 1 - float(first @ first)
assert told < asked == alone
PYTHON
