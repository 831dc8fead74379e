#!/usr/bin/env bash
# Two readers of Markdown notes differ on where front matter ends. The plugin of mdit-py-plugins 0.7.0 takes an indented
# "---" inside a block text of YAML for the end, and a line "..." too; python-frontmatter 1.3.0 reads on in the first case
# and finds no front matter at all in the second. So one shows metadata as text that the other hides.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mdit-py-plugins==0.7.0 markdown-it-py==4.3.0 python-frontmatter==1.3.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import frontmatter
from markdown_it import MarkdownIt
from mdit_py_plugins.front_matter import front_matter_plugin

parser = MarkdownIt().use(front_matter_plugin)
block = "---\nabout: |\n  ---\nend: 1\n---\n# Title\n"
dots = "---\nabout: x\n...\n# Title\n"
seen = {}
for name, note in (("block", block), ("dots", dots)):
    plugin = next((token.content for token in parser.parse(note) if token.type == "front_matter"), None)
    seen[name] = (plugin, frontmatter.loads(note).metadata)
    print(name, *map(repr, seen[name]))
assert seen["block"] == ("about: |", {"about": "---\n", "end": 1})
assert seen["dots"] == ("about: x", {})
PYTHON
