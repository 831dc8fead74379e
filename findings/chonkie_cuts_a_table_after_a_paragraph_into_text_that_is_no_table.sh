#!/usr/bin/env bash
# chonkie 1.7.0: TableChunker repeats the head of a Markdown table in each chunk. It takes the first lines of its input
# for the head, so that a paragraph before the table is repeated instead, and the line of dashes is missing from the
# second chunk on: no renderer shows a table there. The rows of the first chunk are fewer than requested.
# Seen: the line of dashes in every chunk of a bare table, in the first only with a paragraph before it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet chonkie==1.7.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from chonkie import TableChunker

table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n"


def dashes(text: str) -> list[bool]:
    return ["|---|---|" in chunk.text for chunk in TableChunker(tokenizer="row", chunk_size=2).chunk(text)]


chunks = TableChunker(tokenizer="row", chunk_size=2).chunk(f"What it costs:\n\n{table}")
seen = dashes(table), [("|---|---|" in chunk.text, "What it costs:" in chunk.text) for chunk in chunks]
print(seen)
if seen != ([True, True], [(True, True), (False, True)]):
    raise SystemExit("chonkie cuts tables in another way now")
PYTHON
