"""What a server answers first, whatever it was started with: src/vector_memory/server/early.json."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from itertools import combinations, product
from typing import Any
from unittest.mock import MagicMock, patch

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from vector_memory.server.app import create_server
from vector_memory.server.early import CAPABILITIES, PREFIX, VERSION, all_tools, description, key_of_offer
from vector_memory.server.fastmcp_adapter import (
    MessageStream,
    SessionMessage,
    create_client_server_memory_streams,
    serve_streams,
)
from vector_memory.server.jsonrpc import as_line, read_message
from vector_memory.server.tools import made
from vector_memory.settings import Answers, Profile, ServerOptions, Settings, Toolset

LIBRARIES = ("fastmcp", "mcp", "mcp-types")
META = {"_meta": {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: {}}}
HELLO = {"protocolVersion": "", "capabilities": {}, "clientInfo": {"name": "", "version": ""}}
LISTS = ("prompts/list", "resources/list", "resources/templates/list")
LEGACY = (("initialize", HELLO), ("tools/list", {}), *((name, {}) for name in LISTS))
MODERN = (("server/discover", META), ("tools/list", META), *((name, META) for name in LISTS))
VARIES = "protocolVersion"
"""What an answer does not share with all others of its method."""


def offers() -> Iterator[ServerOptions]:
    """Yield every combination of options that a client can tell."""
    several = [",".join(some) for size in range(len(Toolset)) for some in combinations(Toolset, size + 1)]
    for toolsets, profile, answers, read_only in product(several, Profile, Answers, (False, True)):
        if profile is not Profile.CORE or toolsets == Toolset.SESSION:
            yield ServerOptions(toolsets=toolsets, profile=profile, answers=answers, read_only=read_only)


def results_of(offer: ServerOptions, requests: tuple[tuple[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """Return the results of requests to a server, by method; without those that it refuses. It needs no memory."""
    results = {}

    @asynccontextmanager
    async def asking() -> AsyncIterator[MessageStream]:
        async def ask() -> None:
            for number, (method, params) in enumerate(requests):
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await send.send(SessionMessage(read_message(json.dumps(request).encode())))
                answer = await receive.receive()
                assert isinstance(answer, SessionMessage)
                said = json.loads(as_line(answer.message))
                if "result" in said:
                    results[method] = said["result"]
            await send.aclose()

        async with create_client_server_memory_streams() as ((receive, send), servers), asyncio.TaskGroup() as tasks:
            tasks.create_task(ask())
            yield servers

    asyncio.run(serve_streams(create_server(unopened, offer), asking()))
    return results


def unopened() -> Any:
    """Return a memory of which nothing is read."""
    return nullcontext(MagicMock())


def early_answers() -> Iterator[str]:
    """Yield the file's lines. What it says now is not asked."""
    with patch.dict(description(), configurations={}):
        forget()
        yield from lines()
    forget()


def forget() -> None:
    """Forget the tools, which are made of what the file says."""
    all_tools.cache_clear()
    made.cache_clear()


def lines() -> Iterator[str]:
    """Yield the file's lines: a value that several answers have in common is written once."""
    values: dict[str, int] = {}

    def number(value: object) -> int:
        return values.setdefault(json.dumps(value, ensure_ascii=False), len(values))

    configurations = {}
    for offer in offers():
        eras = {"legacy": results_of(offer, LEGACY), "modern": results_of(offer, MODERN)}
        listed = eras["legacy"]["tools/list"]["tools"]
        assert listed == eras["modern"]["tools/list"]["tools"]
        tools = [
            number({name: number(part) if name.endswith("Schema") else part for name, part in tool.items()})
            for tool in listed
        ]
        configurations[key_of_offer(offer)] = {"tools": tools} | {
            era: {
                method: number({key: None if key == "tools" else one for key, one in result.items() if key != VARIES})
                for method, result in results.items()
            }
            for era, results in eras.items()
        }
    head = {
        "libraries": [f"{name.replace('-', '_')}-{version(name)}" for name in LIBRARIES],
        "handshakes": HANDSHAKE_PROTOCOL_VERSIONS,
        "modern": LATEST_MODERN_VERSION,
        "ignored": [f"{PREFIX}{name.upper()}" for name in Settings.model_fields if name != "log_file"],
        "configurations": configurations,
    }
    yield "{"
    yield from (f'"{name}": {json.dumps(value)},' for name, value in head.items())
    yield from ('"values": [', ",\n".join(values), "]", "}")
