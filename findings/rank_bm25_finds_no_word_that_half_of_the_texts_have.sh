#!/usr/bin/env bash
# rank-bm25 0.2.2: BM25Okapi gives the weight 0 to a word that stands in exactly half of the texts. In a memory of two
# texts that is each word that tells them apart, so that no question finds anything; with one text, the score of its
# own words is negative, below the 0 of words that do not occur.
# Seen: [0, 0] for two texts, -0.27 for one text, above 0 with a third text.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rank-bm25==0.2.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from rank_bm25 import BM25Okapi

texts = ["deploys go out on friday", "the cache holds sessions", "backups run at night"]
seen = {
    count: BM25Okapi([text.split() for text in texts[:count]]).get_scores(["friday"]).round(2).tolist()
    for count in (1, 2, 3)
}
print(seen)
if seen[1] != [-0.27] or seen[2] != [0, 0] or seen[3][0] <= 0:
    raise SystemExit("rank-bm25 weighs words in another way now")
PYTHON
