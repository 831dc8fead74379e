#!/usr/bin/env bash
# langchain-text-splitters 1.1.3: MarkdownHeaderTextSplitter strips each line, so that Python in a fence loses its
# indentation and is no program any more. Neighbouring sections of one name become one, and a heading without text is
# in no result.
# Seen: 'return 1' at the margin, one section 'Log' of two, no 'Empty'.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet langchain-text-splitters==1.1.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from langchain_text_splitters import MarkdownHeaderTextSplitter

text = "# Code\n\n```python\ndef f():\n    return 1\n```\n\n# Empty\n\n# Log\n\nfirst\n\n# Log\n\nsecond\n"
found = MarkdownHeaderTextSplitter([("#", "title")]).split_text(text)
seen = [(each.metadata["title"], each.page_content) for each in found]
print(seen)
code = "```python\ndef f():\nreturn 1\n```"
if [title for title, _ in seen] != ["Code", "Log"] or seen[0][1] != code or "second" not in seen[1][1]:
    raise SystemExit("the splitter keeps code, sections or headings now")
PYTHON
