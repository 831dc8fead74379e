#!/usr/bin/env bash
# python-frontmatter 1.3.0: Markdown may begin with a thematic break. If a second one follows anywhere below, all between
# them counts as front matter, and when it is YAML but no mapping, as every plain paragraph is, it is neither metadata nor
# content: reading a note and writing it back deletes the paragraph. Indentation at the beginning of the content, which
# makes a code block, is removed too.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet python-frontmatter==1.3.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import frontmatter

note = "---\nDecided on Monday.\n\n---\n\nAnd on Tuesday.\n"
read = frontmatter.loads(note)
written = frontmatter.dumps(read)
print(read.metadata, repr(read.content), repr(written))
assert (read.metadata, read.content) == ({}, "And on Tuesday.")
assert "Monday" not in written
assert frontmatter.loads("---\na: 1\n---\n\n    code\n").content == "code"
PYTHON
