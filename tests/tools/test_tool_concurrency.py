"""Calls at once, each answered by itself, and calls that wait: for others, for changes, for vectors."""

import functools
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from fastmcp import FastMCP
from fastmcp.client.client import CallToolResult
from mcp_types import JSONRPCRequest

from eras import Call, Rows
from inside import storage_of
from other_process import OtherProcess
from vector_memory.answers.models import ChangesResult, StoreMemoryResult
from vector_memory.errors import DatabaseError
from vector_memory.server import turns
from vector_memory.server.app import create_server
from vector_memory.server.tools import kind_of_call
from vector_memory.server.turns import FILE, HOOK, LONG_STORE, LONG_TEXT, LOOK_UP, OTHER, SEARCH, STORE, Kind
from vector_memory.settings import ServerOptions
from vector_memory.storage.records import Lease
from vector_memory.store import SessionMemoryStore
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

CALLS = 40


async def test_forty_calls_at_once_answer_their_own_question(call: Call, rows: Rows) -> None:
    """Mixed calls that run at the same time each get the right answer, and every acknowledged memory is there once."""
    for number in range(CALLS):
        await call("store_report", agent_id="a", session_id=f"s{number}", content=f"Before: topic{number}.")
    answers: dict[int, CallToolResult] = {}

    async def one(number: int) -> None:
        session = {"session_id": f"s{number}"}
        kinds = (
            ("store_report", {"agent_id": "a", "content": f"After: topic{number}."} | session),
            ("search_reports_specific_chunks", {"query": f"topic{number}"} | session),
            ("search_reports_full_documents", session),
            ("get_memory_by_id", {"memory_id": number + 1}),
            ("get_session_stats", session),
        )
        tool, arguments = kinds[number % len(kinds)]
        answers[number] = await call(tool, **arguments)

    async with anyio.create_task_group() as group:
        for number in range(CALLS):
            group.start_soon(one, number)

    assert len(answers) == CALLS
    for number, answer in answers.items():
        body = answer.structured_content
        assert body["success"] is True, body
        if "results" in body:
            assert f"topic{number}." in (body["results"][0].get("chunk_content") or body["results"][0]["content"])
        elif "memory" in body:
            assert f"topic{number}." in body["memory"]["content"]
        else:
            assert body["session_id"] == f"s{number}"
    assert rows()["session_memories"] == CALLS + CALLS // 5


@pytest.mark.parametrize(
    ("tool", "arguments"), [("get_session_stats", {"session_id": "s"}), ("delete_memory", {"memory_id": 1})]
)
async def test_a_slow_store_blocks_no_other_call(
    call: Call, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    """While one call waits for the disk another is answered: no tool runs the store on the event loop."""
    began, released, ended = (threading.Event() for _ in range(3))

    def slow(*_: object, **__: object) -> None:
        began.set()
        released.wait(PATIENCE)
        ended.set()
        raise DatabaseError("The disk was slow.")

    monkeypatch.setattr(store, tool, slow)
    async with anyio.create_task_group() as group:
        group.start_soon(functools.partial(call, tool, **arguments))
        await until(began.is_set)
        answer = await call("list_sessions")
        assert not ended.is_set()
        released.set()
    assert answer.structured_content["success"] is True


async def test_short_texts_are_stored_while_long_ones_wait_for_each_other(
    call: Call, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, ended, at_once = threading.Event(), threading.Event(), threading.Semaphore(LONG_STORE.most)
    real = store.store_memory

    def slow(kind: str, content: str, **others: Any) -> StoreMemoryResult:
        if len(content) > LONG_TEXT:
            assert at_once.acquire(blocking=False), "too many at once"
            released.wait(PATIENCE)
            ended.set()
            at_once.release()
        return real(kind, content[:20], **others)

    monkeypatch.setattr(store, "store_memory", slow)
    async with anyio.create_task_group() as group:
        for number in range(STORE.most):
            text = f"Long text {number}. {'x' * LONG_TEXT}"
            group.start_soon(functools.partial(call, "store_report", agent_id="a", session_id="s", content=text))
        answer = await call("store_report", agent_id="a", session_id="s", content="Short.")
        assert not ended.is_set()
        released.set()
    assert answer.structured_content["success"] is True
    assert store.get_session_stats("s").total_memories == STORE.most + 1


LONG = {"content": "x" * (LONG_TEXT + 1)}


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("search_changes", {"query": "cache"}, SEARCH),
        ("get_memory_by_id", {"memory_id": 1}, LOOK_UP),
        ("write_document_to_file", {"memory_id": 1}, LOOK_UP),
        ("cleanup_old_memories", {"dry_run": None}, LOOK_UP),
        ("cleanup_old_memories", {"dry_run": False}, STORE),
        ("store_report", {"content": "x"}, STORE),
        ("store_report", LONG, LONG_STORE),
        ("memory_write", {"entry": "x"}, FILE),
        ("hook_prompt", LONG, HOOK),
        ("store_report", None, STORE),
    ],
)
def test_a_call_waits_for_those_of_its_kind(tool: str, arguments: dict[str, Any] | None, kind: Kind) -> None:
    params = {"name": tool, "arguments": arguments}
    assert kind_of_call(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params)) is kind
    assert kind_of_call(JSONRPCRequest(jsonrpc="2.0", id=1, method="prompts/get", params=params)) is OTHER


HERE = {"session_id": "s", "own_agent_id": "me"}
LONGEST = 50
"""Seconds that no test takes: an answer before them came because something was stored."""


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="session,tagged"))


def put(store: SessionMemoryStore, text: str, agent_id: str = "you", session_id: str = "s") -> None:
    store.store_memory("report", text, session_id=session_id, agent_id=agent_id)


async def test_a_call_waits_until_another_agent_stores_something(call: Call, store: SessionMemoryStore) -> None:
    threading.Timer(0.5, put, (store, "Found it.")).start()
    answer = (await call("search_changes", **HERE, wait=LONGEST)).structured_content
    assert [one["content"] for one in answer["results"]] == ["Found it."]


async def test_a_call_waits_for_another_process(call: Call, store: SessionMemoryStore, tmp_path: Path) -> None:
    put(store, "Something known.", agent_id="me")
    other = OtherProcess(tmp_path / "memory.db")
    try:
        since = (await call("search_changes", **HERE, since="now")).structured_content["cursor"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, store_later, other)
            answer = (await call("search_changes", **HERE, since=since, wait=LONGEST)).structured_content
    finally:
        other.close()
    assert [one["content"] for one in answer["results"]] == ["From afar."]


def store_later(other: OtherProcess) -> None:
    other.call("list_sessions")
    other.call("store_memory", "report", "From afar.", session_id="s", agent_id="you")


async def test_what_does_not_count_as_new_ends_no_waiting(
    call: Call, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what the agent stored itself, nor another session."""
    asked: list[ChangesResult] = []
    search = store.search_changes

    def store_three() -> None:
        put(store, "My own.", agent_id="me")
        put(store, "Elsewhere.", session_id="other")
        put(store, "Found it.")

    def searching(*scope: Any, **named: Any) -> ChangesResult:
        asked.append(search(*scope, **named))
        if len(asked) == 1:
            threading.Timer(0.3, store_three).start()
        return asked[-1]

    monkeypatch.setattr(store, "search_changes", searching)
    answer = (await call("search_changes", **HERE, since="now", wait=LONGEST)).structured_content
    assert [one["content"] for one in answer["results"]] == ["Found it."]
    assert len(asked) <= 5, "it asks only after commits"


async def test_a_call_whose_time_is_over_gives_the_cursor(call: Call, store: SessionMemoryStore) -> None:
    put(store, "Known.")
    cursor = (await call("search_changes", **HERE)).structured_content["cursor"]
    answer = (await call("search_changes", **HERE, since=cursor, wait=1)).structured_content
    assert (answer["total_new"], answer["cursor"], answer["success"]) == (0, cursor, True)


async def test_too_many_waiting_calls_answer_at_once(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_WAITING", 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: call("search_changes", **HERE, wait=LONGEST))
        await until(lambda: (calls := turns.waiting_calls.get(None)) and calls.borrowed_tokens)
        assert (await call("search_changes", **HERE, wait=LONGEST)).structured_content["total_new"] == 0
        tasks.cancel_scope.cancel()


async def test_others_are_served_while_calls_wait(call: Call, store: SessionMemoryStore) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(lambda: call("search_changes", **HERE, wait=LONGEST))
        await until(lambda: (calls := turns.waiting_calls.get(None)) and calls.borrowed_tokens == 20)
        assert (await call("list_sessions")).structured_content["success"]
        put(store, "Enough.")


async def test_a_wait_of_more_than_fifty_seconds_is_refused(call: Call) -> None:
    answer = await call("search_changes", **HERE, wait=51)
    assert answer.is_error
    assert "wait" in answer.structured_content["message"]


@pytest.fixture
def outstanding(store: SessionMemoryStore) -> list[int]:
    """Return memories whose vectors another process has promised: one more than there should be."""
    store.settings = store.settings.model_copy(update={"max_pending_vectors": 1})
    ids = [store.store_memory("report", text, session_id="s").memory_id for text in ("One.", "Two.")]
    with storage_of(store).write() as writer:
        for number in ids:
            writer.defer_vectors(number, Lease("other", time.time() + 55))
    return ids


STORES: dict[str, dict[str, Any]] = {"store_working_memory": {"session_id": "s", "agent_id": "me"}, "store_memory": {}}


@pytest.mark.parametrize("tool", STORES)
async def test_a_receipt_waits_while_too_many_vectors_are_outstanding_and_the_text_does_not(
    call: Call, store: SessionMemoryStore, outstanding: list[int], tool: str
) -> None:
    receipts = []

    async def send() -> None:
        receipts.append((await call(tool, content="Three.", **STORES[tool])).structured_content)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await until(lambda: store.count_memories() == len(outstanding) + 1)
        await anyio.sleep(2 * turns.BACKLOG_POLL_SECONDS)
        assert not receipts
        with storage_of(store).write() as writer:
            writer.release_leases("other", outstanding[0])
    assert receipts[0]["success"]


async def test_a_receipt_does_not_wait_longer_than_clients_do(
    call: Call, store: SessionMemoryStore, outstanding: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BACKLOG_SECONDS", 0.0)
    answer = await call("store_report", content="Three.", session_id="s", agent_id="me")
    assert answer.structured_content["success"]
    assert store.count_pending() == len(outstanding)


async def test_a_receipt_comes_though_the_backlog_cannot_be_counted(
    call: Call, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "count_pending", Mock(side_effect=DatabaseError("The disk failed.")))
    answer = await call("store_report", content="Kept.", session_id="s", agent_id="me")
    assert answer.structured_content["success"]
