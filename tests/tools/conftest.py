"""A server in memory over a real store with the toy engine, called in both protocol eras."""

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from eras import ERAS, Call, Rows
from faults.soundness import connected
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.app import create_server
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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
def rows(store: SessionMemoryStore, tmp_path: Path) -> Rows:  # noqa: ARG001 - the store makes the file
    """Count the rows of every table, and give the memories' texts."""

    def rows() -> dict[str, object]:
        with connected(tmp_path / "memory.db") as connection:
            tables = connection.execute(
                "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
            )
            counts: dict[str, object] = {
                name: connection.execute(f"select count(*) from [{name}]").get for (name,) in tables.fetchall()
            }
            texts = connection.execute("select id, memory_type, content, tags, metadata from session_memories")
            return counts | {"texts": texts.fetchall()}

    return rows
