#!/usr/bin/env bash
# bm25s 0.3.16: its tokenizer leaves out words of one character and English stop words, so a question about the
# language C, or one such as 'who is it', has no words. A question without a known word is answered all the same: with
# k texts, the last ones first, and a score of 0.
# Seen: tokens [] for 'C', ['e5'] for 'x E5 y'; texts [2, 1, 0] with scores 0 for a word that stands nowhere.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet bm25s==0.3.16 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import bm25s

tokens = bm25s.tokenize(["C", "x E5 y", "to be or not to be"], return_ids=False, show_progress=False)
index = bm25s.BM25()
index.index(bm25s.tokenize(["alpha", "beta", "gamma"], show_progress=False), show_progress=False)
texts, scores = index.retrieve(bm25s.tokenize(["zeta"], show_progress=False), k=3, show_progress=False)
seen = tokens, texts[0].tolist(), scores[0].tolist()
print(seen)
if seen != ([[], ["e5"], []], [2, 1, 0], [0, 0, 0]):
    raise SystemExit("bm25s reads or answers such questions in another way now")
PYTHON
