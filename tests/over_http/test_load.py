"""Many callers at once: stores never keep searches waiting, nor does one namespace another."""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from over_http.calling import answer_in, post
from over_http.conftest import GatedEngine, Team
from vector_memory.embedding.embedder import Vectors
from vector_memory.server.http.serving import listen
from waiting import eventually

STORES = 48
"""More than the server has threads."""

QUERIES = ("what is it", "where is it")


class TextsHeld(GatedEngine):
    """Embeds queries at once."""

    begun = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not set(texts) <= set(QUERIES):
            self.begun += 1
            assert self.gate.wait(60)
        return super().embed(texts)


@pytest.fixture
def engine() -> TextsHeld:
    return TextsHeld()


def call(team: Team, secret: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return its answer, which has to be a success."""
    body = answer_in(post(team.url, secret, tool=tool, arguments=arguments, verify=False))
    assert body["success"], body
    return body


def test_searches_of_all_namespaces_are_answered_while_more_stores_than_threads_wait(
    gated: Team, engine: TextsHeld
) -> None:
    tokens = {name: gated.token(name, name) for name in ("red", "blue")}
    with ThreadPoolExecutor(STORES) as threads:
        stores = [
            threads.submit(call, gated, tokens["red"], "store_report", session_id="s", content=f"# {number}\n\nText.")
            for number in range(STORES)
        ]
        eventually(lambda: engine.begun)
        for secret in tokens.values():
            for query in QUERIES:
                assert not call(gated, secret, "search_reports_specific_chunks", query=query)["results"]
        assert not any(store.done() for store in stores)
        engine.gate.set()
        assert len({store.result()["memory_id"] for store in stores}) == STORES
    assert call(gated, tokens["red"], "list_sessions")["sessions"][0]["memory_count"] == STORES


def test_an_answer_does_not_wait_until_its_headers_are_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
