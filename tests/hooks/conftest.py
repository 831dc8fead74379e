"""A server in memory whose hooks are called as a client calls them."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from vector_memory.answers.models import MemoryEntry
from vector_memory.domain import Project, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.app import create_server
from vector_memory.server.hooks import capture
from vector_memory.settings import ServerOptions, Settings
from vector_memory.store import SessionMemoryStore

OWN = Project("/work/shop", owns_memory=True)


class Talk:
    """A client's conversation with a server of its own over a store."""

    def __init__(self, client: Client, store: SessionMemoryStore) -> None:
        self.client = client
        self.store = store

    async def hook(self, tool: str, **fields: object) -> str | None:
        """Call a hook's tool; return what it adds to the context."""
        answer = await self.client.call_tool(tool, fields, raise_on_error=False)
        assert not answer.is_error
        assert answer.structured_content is None
        [block] = answer.content
        told = json.loads(block.text)
        assert set(told) <= {"hookSpecificOutput"}
        return told["hookSpecificOutput"]["additionalContext"] if told else None

    async def prompt(self, session_id: str, prompt: str) -> str | None:
        """Send a user's prompt; return what the agent is told with it."""
        return await self.hook("hook_prompt", session_id=session_id, prompt=prompt)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool; return its answer."""
        return dict((await self.client.call_tool(tool, arguments, raise_on_error=False)).structured_content or {})

    async def listed(self) -> set[str]:
        """Return the names of the tools in the list."""
        return {tool.name for tool in await self.client.list_tools()}

    def memories(self) -> list[MemoryEntry]:
        """Return all memories, in the order of storing."""
        entries = self.store.get_timeline(Scope()).entries
        found = [self.store.get_memory_by_id(number).memory for number in sorted(entry.memory_id for entry in entries)]
        return [memory for memory in found if memory is not None]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hooks wait until a text is stored, however busy the machine is."""
    monkeypatch.setattr(capture, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(capture, "PATIENCE_AFTERWARDS_SECONDS", 60.0)


@pytest.fixture
def talking(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that opens a conversation over one memory file."""

    @asynccontextmanager
    async def talking(
        settings: Settings | None = None,
        project: Project = OWN,
        offer: ServerOptions = ServerOptions(),
        era: str = "legacy",
    ) -> AsyncIterator[Talk]:
        with SessionMemoryStore(
            tmp_path / "memory.db", settings, embedder=ToyEngine(), read_only=offer.read_only
        ) as store:
            server = create_server(lambda: nullcontext(store), offer, project=project)
            async with Client(server, mode=era) as client:
                yield Talk(client, store)

    return talking


@pytest.fixture
async def talk(talking: Callable[..., Any]) -> AsyncIterator[Talk]:
    async with talking() as talk:
        yield talk
