"""Relays in this process, and what their clients do."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import run_sync
from fastmcp import Client

from over_http.conftest import Team
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.server.http.relay import Relay, create_relay
from vector_memory.server.http.remote import NOBODY, Remote, call_of
from vector_memory.settings import Redact, ServerOptions
from vector_memory.writing.outbox import Outbox
from waiting import until

NAMES = map("relay-{}".format, itertools.count())
AWAY = "http://127.0.0.1:9/mcp"
REPORT = {"agent_id": "a", "session_id": "s", "content": "# Found\n\nIt works."}


def remote_of(team: Team, permission: str = "write", **limits: object) -> Remote:
    """Return the shared memory, with a token of its own."""
    secret = team.token(next(NAMES), permission=permission, **limits)
    return Remote(team.url, lambda: secret)


@asynccontextmanager
async def connected(remote: Remote, outbox: Outbox, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """Connect a client to a relay. Afterwards nobody delivers any more, so that another relay can."""
    async with Client(create_relay(Relay(remote, outbox), ServerOptions()), mode=era, **options) as client:
        yield client
    await until(lambda: outbox.contents().deliverer is None)


async def stored(client: Client, **facts: str) -> dict[str, Any]:
    """Store a report in a session of its own."""
    answer = await client.call_tool("store_report", {**REPORT, "session_id": next(NAMES), **facts})
    return dict(answer.structured_content)


async def failure(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails, and return its message."""
    answer = await client.call_tool(tool, arguments, raise_on_error=False)
    assert answer.is_error
    return str(answer.structured_content["message"])


def limit(team: Team, name: str, **quota: int) -> str:
    """Limit a namespace, which is made if there is none, and return its name."""
    namespaces = Registry(team.folder)
    if name not in namespaces.names():
        namespaces.create(name)
    namespaces.set_quota(name, Quota(**quota))
    return name


def refused(outbox: Outbox) -> list[str]:
    """Return the texts that were set aside."""
    return [json.loads(path.read_bytes())["arguments"]["content"] for path, _ in outbox.refused()]


def add(outbox: Outbox, tool: str, **arguments: object) -> None:
    """Let a call wait."""
    outbox.add(call_of(tool, arguments, NOBODY, Redact.CAPTURED))


def calls(outbox: Outbox) -> list[dict[str, Any]]:
    """Return the calls that wait."""
    return [waiting.body for waiting in outbox.waiting()]


async def send_waiting(relay: Relay) -> None:
    """Try to send what waits once."""
    relay.sender.begin(asyncio.get_running_loop())
    await run_sync(relay.delivery.deliver_waiting)
