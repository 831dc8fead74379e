#!/usr/bin/env bash
# vectra 0.12.3: an item whose vector is all zeros has the score NaN and stays where it was stored in the sorted result,
# ahead of items with a number. A vector with another number of components is accepted into the same index and gets a
# score against a query that has fewer.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund vectra@0.12.3
node - <<'JAVASCRIPT'
const assert = require("assert");
const { LocalIndex } = require("vectra");
(async () => {
  const index = new LocalIndex("index");
  await index.createIndex();
  for (const [name, vector] of [["same", [1, 0]], ["zeros", [0, 0]], ["opposite", [-1, 0]], ["longer", [1, 0, 5]]]) {
    await index.insertItem({ vector, metadata: { name } });
  }
  const found = (await index.queryItems([1, 0], "", 4)).map((each) => [each.item.metadata.name, each.score]);
  console.log(found);
  assert.strictEqual(found.length, 4);
  assert.deepStrictEqual(found[1], ["zeros", NaN]);
  assert.ok(Number.isFinite(Object.fromEntries(found).longer));
})();
JAVASCRIPT
