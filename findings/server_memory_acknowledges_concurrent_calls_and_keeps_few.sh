#!/usr/bin/env bash
# @modelcontextprotocol/server-memory 2026.8.31: each call reads the whole file, adds to it and writes it again, and
# nothing orders the calls of one client. Of 20 entities created by 20 calls at once, all are answered as created; few
# are kept. Agents that call tools in parallel do exactly this.
# Seen: 20 created, 1 kept (other numbers below 20 are possible).
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

const entity = (name, text) => ({ entities: [{ name, entityType: "note", observations: [text] }] });
const numbers = [...Array(20).keys()];
const answers = await Promise.all(numbers.map((n) => call("create_entities", entity(`note ${n}`, "x"))));
const created = answers.filter((answer) => answer.entities.length === 1).length;
const kept = (await call("read_graph", {})).entities.length;
console.log("created:", created, "kept:", kept);
await client.close();
if (created !== 20 || kept === 20) {
  console.error("server-memory keeps what is created at the same time now");
  process.exit(1);
}
JAVASCRIPT
node finding.mjs
