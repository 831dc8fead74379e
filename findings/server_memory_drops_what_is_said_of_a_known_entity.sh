#!/usr/bin/env bash
# @modelcontextprotocol/server-memory 2026.8.31: create_entities with a name that is stored drops its observations and
# answers with an empty list, which is no error. Yet two entities of one name in the same call are both stored, so
# names are not unique in its file, and an importer must join them.
# Seen: 0 created and 'Moved to Monday.' nowhere; 2 of the name New.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @modelcontextprotocol/server-memory@2026.8.31 @modelcontextprotocol/sdk@1.32.2
cat >finding.mjs <<'JAVASCRIPT'
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const client = new Client({ name: "finding", version: "1" });
await client.connect(
  new StdioClientTransport({
    command: process.execPath,
    args: ["node_modules/@modelcontextprotocol/server-memory/dist/index.js"],
    env: { MEMORY_FILE_PATH: join(process.cwd(), "memory.jsonl") },
    stderr: "ignore",
  }),
);
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;

const plan = (text) => ({ entities: [{ name: "Plan", entityType: "note", observations: [text] }] });
await call("create_entities", plan("Ships on Friday."));
const again = (await call("create_entities", plan("Moved to Monday."))).entities.length;
const twice = { entities: ["one", "two"].map((text) => ({ ...plan(text).entities[0], name: "New" })) };
const both = (await call("create_entities", twice)).entities.length;
const stored = (await call("read_graph", {})).entities.map(({ name, observations }) => `${name}: ${observations}`);
const seen = JSON.stringify([again, both, stored]);
console.log(seen);
await client.close();
if (seen !== '[0,2,["Plan: Ships on Friday.","New: one","New: two"]]') {
  console.error("server-memory treats a name that it knows in another way now");
  process.exit(1);
}
JAVASCRIPT
node finding.mjs
