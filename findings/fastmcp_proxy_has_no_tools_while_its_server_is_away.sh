#!/usr/bin/env bash
# fastmcp 4.2.3: a server with a ProxyProvider offers the tools of another server. Expected while that one cannot be
# reached: an error that says so, for the list and for a call, as a client that is connected directly gets it.
# Seen: the list succeeds and is empty, and a call fails with the words for a tool that does not exist. So an agent is
# told that there is no such tool, and a client that asks for the list at that moment keeps an empty one.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet fastmcp==4.2.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import logging
import socket

from fastmcp import Client, FastMCP
from fastmcp.server.providers.proxy import ProxyClient, ProxyProvider

logging.disable(logging.CRITICAL)
with socket.create_server(("127.0.0.1", 0)) as reserved:
    AWAY = f"http://127.0.0.1:{reserved.getsockname()[1]}/mcp"


async def main() -> dict[str, object]:
    try:
        async with Client(AWAY) as direct:
            await direct.list_tools()
        directly = "no error"
    except Exception as error:
        directly = "error" if "connect" in str(error).lower() else str(error)
    front = FastMCP("front")
    front.add_provider(ProxyProvider(lambda: ProxyClient(AWAY)))
    async with Client(front) as client:
        tools = [tool.name for tool in await client.list_tools()]
        try:
            await client.call_tool("add", {})
            call = "no error"
        except Exception as error:
            call = str(error)
    return {"directly": directly, "tools": tools, "call": call}


found = asyncio.run(main())
print(found)
if found != {"directly": "error", "tools": [], "call": "Unknown tool: 'add'"}:
    raise SystemExit("fastmcp's proxy says something else now")
PYTHON
