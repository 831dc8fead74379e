#!/usr/bin/env bash
# Claude Code 2.1.330: `claude plugin validate --strict` refuses a plugin whose folder `skills` is a link to a folder
# beside the plugin, and one whose only skill is a link to a file. Expected: the file that the link leads to is read, as
# that of a plugin without links.
# Seen: it ends with 1 and says that it read nothing there; with the same file in place it ends with 0.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @anthropic-ai/claude-code-linux-x64@2.1.330
claude=$(find node_modules/@anthropic-ai/claude-code-linux-x64 -name claude -type f | head -1)
export HOME="$folder/home" DISABLE_AUTOUPDATER=1
mkdir -p home shared/skills/notes plugin/.claude-plugin
printf '{"name": "notes", "version": "1.0.0", "description": "Keeps notes.", "author": {"name": "A"}}\n' \
  >plugin/.claude-plugin/plugin.json
printf -- '---\nname: notes\ndescription: Use it when the user asks for a note.\n---\n\n# Notes\n\nWrite a note.\n' \
  >shared/skills/notes/SKILL.md

checked() {
  local code=0
  "$claude" plugin validate --strict plugin >said 2>&1 || code=$?
  printf '%s: ends with %d; says that a link was not read: %s\n' "$1" "$code" "$(grep -c symlink said || true)"
  echo "$code" >"$1"
}

ln -s ../shared/skills plugin/skills
checked folder
rm plugin/skills
mkdir -p plugin/skills/notes
ln -s ../../../shared/skills/notes/SKILL.md plugin/skills/notes/SKILL.md
checked file
rm plugin/skills/notes/SKILL.md
cp shared/skills/notes/SKILL.md plugin/skills/notes/
checked copy
[ "$(cat folder)$(cat file)$(cat copy)" = 110 ]
