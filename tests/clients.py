"""Clients of servers that are started with a whole command line, as a client's configuration gives it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension


@asynccontextmanager
async def connected(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, era: str = "auto"
) -> AsyncIterator[Client[StdioTransport]]:
    """Start the server in a folder, with these variables and the few that every client passes on, and speak to it."""
    program, *arguments = command
    transport = StdioTransport(
        program, arguments, env=dict(environment), cwd=str(folder), keep_alive=False, log_file=folder / "server.log"
    )
    async with Client(transport, mode=era, extensions=[SkillsClientExtension()]) as client:
        yield client
