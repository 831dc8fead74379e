"""Many callers at once: stores never keep searches waiting, nor does one namespace another."""

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from over_http.calling import answer_in, post
from over_http.conftest import SETTINGS, Team, serving
from vector_memory.embedding.embedder import Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.http.serving import listen
from vector_memory.settings import HttpOptions
from vector_memory.tenancy import namespaces
from vector_memory.tenancy.registry import FolderRegistry
from waiting import eventually

STORES = 48
"""More than the server has threads."""

QUERIES = ("what is it", "where is it")


class GatedEngine(ToyEngine):
    """Embeds queries at once, and texts while its gate is open."""

    def __init__(self) -> None:
        super().__init__(SETTINGS.embedding_dim)
        self.gate = threading.Event()
        self.begun = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not set(texts) <= set(QUERIES):
            self.begun += 1
            assert self.gate.wait(60)
        return super().embed(texts)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatedEngine]:
    made = GatedEngine()
    monkeypatch.setattr(namespaces, "load_embedder", lambda _settings: made)
    yield made
    made.gate.set()


@pytest.fixture
def team(tmp_path: Path, engine: GatedEngine) -> Iterator[Team]:
    """A server whose stores wait for their vectors, and these for the engine's gate."""
    del engine
    for name in ("red", "blue"):
        FolderRegistry(tmp_path).create(name)
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path) as url:
        yield Team(url, tmp_path)


def call(team: Team, secret: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return its answer, which has to be a success."""
    answer = post(team.url, secret, tool=tool, arguments=arguments, verify=False)
    body = answer_in(answer)
    assert body["success"], body
    return body


def test_searches_of_all_namespaces_are_answered_while_more_stores_than_threads_wait(
    team: Team, engine: GatedEngine
) -> None:
    tokens = {name: team.token(name, name) for name in ("red", "blue")}
    with ThreadPoolExecutor(STORES) as threads:
        stores = [
            threads.submit(call, team, tokens["red"], "store_report", session_id="s", content=f"# {number}\n\nText.")
            for number in range(STORES)
        ]
        eventually(lambda: engine.begun)
        for secret in tokens.values():
            for query in QUERIES:
                assert not call(team, secret, "search_reports_specific_chunks", query=query)["results"]
        assert not any(store.done() for store in stores)
        engine.gate.set()
        assert len({store.result()["memory_id"] for store in stores}) == STORES
    assert call(team, tokens["red"], "list_sessions")["sessions"][0]["memory_count"] == STORES


def test_an_answer_does_not_wait_until_its_headers_are_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
