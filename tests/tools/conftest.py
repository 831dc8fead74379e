"""A server in memory over a real store with the toy engine, called in both protocol eras."""

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from engines import counts, execute
from eras import ERAS, Call, Rows
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.app import create_server
from vector_memory.store import SessionMemoryStore


@pytest.fixture(params=ERAS.values(), ids=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        yield store


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    """A server whose store outlives it, so that tests can look at what it left."""
    return create_server(lambda: nullcontext(store))


@pytest.fixture
async def client(server: FastMCP, era: str) -> AsyncIterator[Client]:
    async with Client(server, mode=era) as client:
        yield client


@pytest.fixture
def call(client: Client) -> Call:
    """Call a tool; a failure comes back as a result."""

    async def call(tool: str, **arguments: object) -> CallToolResult:
        return await client.call_tool(tool, arguments, raise_on_error=False)

    return call


@pytest.fixture
async def answered(server: FastMCP) -> AsyncIterator[Call]:
    """Call a tool in one era; return the fields of its answer, which is no failure."""
    async with Client(server) as client:

        async def answered(tool: str, **arguments: object) -> dict[str, Any]:
            return dict((await client.call_tool(tool, arguments)).structured_content)

        yield answered


@pytest.fixture
def rows(store: SessionMemoryStore) -> Rows:
    """Count the rows of every table, and give the memories' texts."""

    def rows() -> dict[str, object]:
        texts = execute(store, "select id, memory_type, content, tags, metadata from session_memories order by id")
        return {**counts(store), "texts": texts}

    return rows
