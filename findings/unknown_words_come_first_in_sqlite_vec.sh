#!/usr/bin/env bash
# model2vec 0.10.0 gives a text without a known word a vector of zeros, also with normalize=True. sqlite-vec 0.1.9 stores
# it in a table with distance_metric=cosine and computes no distance for it: NULL. Stored before the others, it is the
# first result of every question, ahead of the text that equals the question.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlite-vec==0.1.9 apsw==3.54.1.0 model2vec==0.10.0 tokenizers==0.23.3 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import apsw
import numpy as np
import sqlite_vec
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

words = {"[UNK]": 0, "[PAD]": 1, "cats": 2, "purr": 3, "dogs": 4, "bark": 5}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = StaticModel(np.eye(len(words), 8, dtype=np.float32), tokenizer, normalize=True)
texts = ["quux", "cats purr", "dogs bark"]
vectors = [model.encode(text).astype(np.float32) for text in texts]
database = apsw.Connection(":memory:")
database.enable_load_extension(True)
database.load_extension(sqlite_vec.loadable_path())
database.execute("create virtual table notes using vec0(embedding float[8] distance_metric=cosine)")
for vector in vectors:
    database.execute("insert into notes (embedding) values (?)", (vector.tobytes(),))
sql = "select rowid, distance from notes where embedding match ? and k = 3 order by distance"
found = database.execute(sql, (vectors[1].tobytes(),)).fetchall()
print([(texts[row - 1], distance) for row, distance in found])
assert not vectors[0].any()
assert found[0] == (1, None)
assert found[1][0] == 2
PYTHON
