#!/usr/bin/env bash
# gray-matter 4.0.3: without options, results are cached by the text, and the cached `data` is handed out itself. Who
# adds a tag to the front matter of one note adds it to each other note with the same text that is read later, in
# another folder too. Passing any options, such as {}, switches the cache off.
# Seen: ['plan', 'done'] for the second reading, ['plan'] with {}.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund gray-matter@4.0.3
cat >finding.mjs <<'JAVASCRIPT'
import matter from "gray-matter";

const text = "---\ntags: [plan]\n---\nShip it.\n";
matter(text).data.tags.push("done");
const seen = JSON.stringify([matter(text).data.tags, matter(text, {}).data.tags]);
console.log(seen);
if (seen !== '[["plan","done"],["plan"]]') {
  console.error("gray-matter hands out fresh objects now");
  process.exit(1);
}
JAVASCRIPT
node finding.mjs
