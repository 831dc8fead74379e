#!/usr/bin/env bash
# fastmcp 4.1.2: a tool declared to return a float that returns NaN, as a similarity to a vector of zeros does, is
# answered without an error. The structure then holds null where the tool's output schema says number, and the client
# of the same library raises for the result. Infinity fares the same.
# Seen: the client raises that None is not of type 'number', for NaN and for infinity.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet fastmcp==4.1.2
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from fastmcp import Client, FastMCP

server = FastMCP("finding")


@server.tool
def similarity(number: str) -> float:
    return float(number)


async def seen(number: str) -> str:
    async with Client(server) as client:
        try:
            return (await client.call_tool_mcp("similarity", {"number": number})).content[0].text
        except RuntimeError as error:
            return str(error).splitlines()[0]


async def main() -> dict[str, str]:
    return {number: await seen(number) for number in ("0.5", "nan", "inf")}


found = asyncio.run(main())
print(found)
if found["0.5"] != "0.5" or not all("None is not of type 'number'" in found[number] for number in ("nan", "inf")):
    raise SystemExit("fastmcp sends or accepts NaN in another way now")
PYTHON
