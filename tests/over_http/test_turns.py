"""Searches take turns: a few at once, namespaces in turn, and none for a caller that has left."""

import asyncio
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest

from leaving import asked
from over_http.calling import answer_in, call_request, post
from over_http.conftest import GatedEngine, Team
from vector_memory.embedding.embedder import EncodedQuestion
from vector_memory.server.turns import AT_ONCE, LOOK_UP, Turn, Turns
from waiting import eventually, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def taken(turns: Turns, namespace: str) -> AsyncIterator[Turn]:
    """Have a turn of a namespace during the block."""
    begun = asyncio.Event()
    turn = turns.wait(begun.set, LOOK_UP, namespace)
    try:
        await begun.wait()
        yield turn
    finally:
        turns.end(turn)


class Calls:
    """Calls that have a turn until they are told to end."""

    def __init__(self, turns: Turns) -> None:
        self.begun: list[str] = []
        self.turns = turns
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str) -> None:
        """Start a call; its namespace is the first letter of its name."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._work(name))
        await asyncio.sleep(0)

    async def end(self, name: str, *, cancelled: bool = False) -> None:
        """Let a call end, and the one whose turn it is then begin."""
        if cancelled:
            self.tasks[name].cancel()
        self._ends[name].set()
        with suppress(asyncio.CancelledError):
            await self.tasks[name]
        await asyncio.sleep(0)

    async def _work(self, name: str) -> None:
        async with taken(self.turns, name[0]):
            self.begun.append(name)
            await self._ends[name].wait()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Calls with one turn, which is never too long."""
    monkeypatch.setattr("vector_memory.server.turns.SECONDS_IN_THE_WAY", 3_600)
    return Calls(Turns(1))


async def test_namespaces_take_turns_and_their_calls_go_in_order(calls: Calls) -> None:
    for name in ("a1", "a2", "a3", "a4", "b1", "b2"):
        await calls.start(name)
    assert calls.begun == ["a1"]
    for name in ("a1", "a2", "b1", "a3", "b2", "a4"):
        assert calls.begun[-1] == name
        await calls.end(name)


async def test_a_call_that_is_cancelled_while_it_waits_never_begins_and_takes_no_turn(calls: Calls) -> None:
    for name in ("a1", "a2", "a3", "a4"):
        await calls.start(name)
    await calls.end("a2", cancelled=True)
    await calls.end("a1")
    assert calls.begun == ["a1", "a3"]
    await calls.end("a3", cancelled=True)
    assert calls.begun == ["a1", "a3", "a4"]
    await calls.end("a4")
    await calls.start("b1")
    assert calls.begun[-1] == "b1"


async def test_a_call_that_is_cancelled_as_its_turn_comes_hands_it_on(calls: Calls) -> None:
    async with taken(calls.turns, "a"):
        await calls.start("a1")
        await calls.start("a2")
    calls.tasks["a1"].cancel()  # its turn has come, and it has not noticed
    await until(lambda: calls.begun == ["a2"])
    await calls.end("a2")


async def test_a_call_that_waits_or_takes_long_lets_others_work_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(1)
    async with taken(turns, "a") as turn:
        await asyncio.to_thread(turn.give_way)
        async with asyncio.timeout(60), taken(turns, "b"):
            monkeypatch.setattr("vector_memory.server.turns.SECONDS_IN_THE_WAY", 0.001)
    async with taken(turns, "a"), asyncio.timeout(60), taken(turns, "b"), taken(turns, "c"):
        pass


class QueriesHeld(GatedEngine):
    """Embeds texts at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def encode_query(self, text: str) -> EncodedQuestion:
        self.asked.append(text)
        assert self.gate.wait(60)
        return super().encode_query(text)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> QueriesHeld:
    monkeypatch.setattr("vector_memory.server.turns.SECONDS_IN_THE_WAY", 3_600)
    return QueriesHeld()


SEARCH = "search_reports_specific_chunks"


def search(team: Team, secret: str, query: str) -> httpx2.Response:
    return post(team.url, secret, tool=SEARCH, arguments={"query": query})


def running_calls(team: Team, secret: str) -> int:
    """Return how many calls the server says are worked on, or wait."""
    said = httpx2.get(team.url.replace("/mcp", "/metrics"), headers={"Authorization": f"Bearer {secret}"}).text
    return int(re.findall(r"^vector_memory_running_calls (\d+)", said, re.MULTILINE)[0])


def test_a_search_whose_caller_has_left_is_never_begun(gated: Team, engine: QueriesHeld) -> None:
    secret = gated.token("ada")
    with ThreadPoolExecutor(AT_ONCE) as callers:
        held = [callers.submit(search, gated, secret, f"what is number {number}") for number in range(AT_ONCE)]
        eventually(lambda: len(engine.asked) == AT_ONCE)
        with asked(call_request(gated.url, secret, SEARCH, {"query": "who has left"})):
            eventually(lambda: running_calls(gated, secret) == AT_ONCE + 1)
        eventually(lambda: running_calls(gated, secret) == AT_ONCE)
        engine.gate.set()
        assert all(answer_in(one.result())["success"] for one in held)
    assert answer_in(search(gated, secret, "who is there"))["success"]
    assert "who has left" not in engine.asked


def test_a_look_up_does_not_wait_for_all_searches_of_its_namespace(gated: Team, engine: QueriesHeld) -> None:
    secret = gated.token("ada")
    with ThreadPoolExecutor(20) as callers:
        held = [callers.submit(search, gated, secret, f"what is number {number}") for number in range(19)]
        eventually(lambda: running_calls(gated, secret) == len(held))
        found = callers.submit(post, gated.url, secret, tool="get_memory_by_id", arguments={"memory_id": 1})
        found.add_done_callback(lambda _: asked.extend(engine.asked))
        eventually(lambda: running_calls(gated, secret) == len(held) + 1)
        asked: list[str] = []
        engine.gate.set()
    assert len(asked) < len(engine.asked) == len(held)
