"""A server for several teams, on a port of its own, with the toy engine."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpcore2
import pytest
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from vector_memory.domain.callers import Permission
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.extras.teams import namespaces
from vector_memory.extras.teams.registry import Registry, Tokens
from vector_memory.server.http.asgi_guard import App, Gate, TimedConnection
from vector_memory.server.http.serving import application, listen
from vector_memory.settings import HttpOptions, ServerOptions, Settings
from vector_memory.writing.outbox import Outbox
from waiting import eventually

SETTINGS = Settings(embedding_model="toy", embed_in_background=False)
ALL_TOOLS = ServerOptions(toolsets="session,tagged")


@dataclass(frozen=True)
class Team:
    """A running server: its address, its data folder and its tokens."""

    url: str
    folder: Path

    @property
    def tokens(self) -> Tokens:
        return Registry(self.folder).tokens

    def token(self, name: str, namespace: str = "red", permission: str = "admin", **limits: object) -> str:
        """Create a token and return its secret."""
        return self.tokens.create(name, namespace, Permission(permission), **limits)  # type: ignore[arg-type]

    @asynccontextmanager
    async def client(self, secret: str | None, mode: str = "auto") -> AsyncIterator[Client]:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        async with Client(StreamableHttpTransport(self.url, headers=headers), mode=mode) as client:
            yield client


@contextmanager
def serving(options: HttpOptions, folder: Path, offer: ServerOptions = ALL_TOOLS) -> Iterator[str]:
    """Run a server in a thread, and yield its address."""
    with running(application(folder / "memory.db", SETTINGS, [folder], offer, options), options.prefix) as url:
        yield url


@contextmanager
def running(app: App, prefix: str = "") -> Iterator[str]:
    """Run an application in a thread, and yield its address."""
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(Gate(app, prefix), http=TimedConnection, log_config=None, lifespan="on", ws="none")
    )
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    eventually(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join()


@pytest.fixture(autouse=True, scope="session")
def known_certificates() -> Iterator[None]:
    """Let all clients of HTTP have one list of certificates: each would read it anew, which takes ten times a call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server with the namespaces red, blue and zoo."""
    folder = tmp_path_factory.mktemp("team")
    for name in ("red", "blue", "zoo"):
        Registry(folder).create(name)
    with serving(HttpOptions(http=True, data_dir=folder), folder) as url:
        yield Team(url, folder)


class GatedEngine(ToyEngine):
    """Embeds queries, or texts, or both, while its gate is open."""

    def __init__(self) -> None:
        super().__init__(SETTINGS.embedding_dim)
        self.gate = threading.Event()


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: GatedEngine) -> Iterator[Team]:
    """A server with the namespaces red and blue, which has the `engine` of the module."""
    monkeypatch.setattr(namespaces, "load_embedder", lambda _settings: engine)
    for name in ("red", "blue"):
        Registry(tmp_path).create(name)
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path) as url:
        yield Team(url, tmp_path)
        engine.gate.set()


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    """What waits, which is nothing."""
    return Outbox(tmp_path / "outbox")
