"""Stores and finds with the column `importance` that a copy of the package has: `python with_importance.py PLACE`."""

import asyncio
import json
import sys
from contextlib import nullcontext
from typing import Any

from fastmcp import Client

from lattice import LatticeEmbedder
from other_process import SETTINGS
from vector_memory.domain import Scope
from vector_memory.server.app import create_server
from vector_memory.store import SessionMemoryStore

KINDS = ("session_context", "input_prompt", "system_memory", "report", "working_memory", "knowledge_base")


async def use(store: SessionMemoryStore) -> dict[str, Any]:
    """Return what tools and the facade say of memories of each kind: three each, of importance 5, 2 and none."""
    async with Client(create_server(lambda: nullcontext(store))) as client:

        async def call(tool: str, **arguments: object) -> dict[str, Any]:
            return (await client.call_tool(tool, arguments, raise_on_error=False)).structured_content

        for kind in KINDS:
            where = {"title": "T"} if kind == "knowledge_base" else {"session_id": "s"}
            for importance in ({"importance": 5}, {"importance": 2}, {}):
                await call(f"store_{kind}", content=f"A lemur of {kind}: {importance}.", **where, **importance)
        tools = {tool.name: tool.input_schema["properties"] for tool in await client.list_tools()}
        found = {}
        for name in filter(lambda name: name.startswith("search_"), tools):
            where = {"session_id": "s"} if "session_id" in tools[name] else {}
            is_optional = name == "search_changes" or "newest" in tools[name]["query"]["description"]
            for query in [{"query": "lemur"}, {}][: 1 + is_optional]:
                answer = await call(name, importance=5, **where, **query)
                found[f"{name} {query}"] = sorted(one.get("memory_id") or one["id"] for one in answer["results"])
        scope = Scope(importance=5)
        return {
            "stores": [name for name in tools if name.startswith("store_") and "importance" in tools[name]],
            "found": found,
            "shown": [(await call("get_memory_by_id", memory_id=one))["memory"].get("importance") for one in (1, 2, 3)],
            "refused": (await call("store_report", content="A", session_id="s", importance=6))["message"],
            "listed": [entry.memory_id for entry in store.get_timeline(scope).entries],
            "counted": sum(hour.memories for hour in store.get_activity(scope).hours),
        }


if __name__ == "__main__":
    with SessionMemoryStore(sys.argv[1], SETTINGS, embedder=LatticeEmbedder()) as memory:
        print(json.dumps(asyncio.run(use(memory))))
