#!/usr/bin/env bash
# lunr 2.3.9 with its defaults: a document of Japanese words is accepted and has no entry in the index, because the
# trimmer removes all that is no ASCII letter at the ends of a word; é inside a word stays. Typed text is a query
# language, so a question with a time such as 10:30 is an error about an unknown field.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund lunr@2.3.9
node - <<'JAVASCRIPT'
const assert = require("assert");
const lunr = require("lunr");
const index = lunr(function () {
  this.ref("id");
  this.field("text");
  this.add({ id: 1, text: "日本語 のテキスト" });
  this.add({ id: 2, text: "naïve café" });
});
const japanese = index.search("日本語").length, accents = index.search("naïve").length;
let error = "";
try {
  index.search("meeting at 10:30");
} catch (raised) {
  error = String(raised);
}
console.log(japanese, accents, error);
assert.deepStrictEqual([japanese, accents], [0, 1]);
assert.match(error, /unrecognised field '10'/);
JAVASCRIPT
