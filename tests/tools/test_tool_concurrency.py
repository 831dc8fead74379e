"""Many calls at once."""

import functools
import threading
from typing import Any

import anyio
import pytest
from fastmcp.client.client import CallToolResult
from mcp_types import JSONRPCRequest

from eras import Call, Rows
from vector_memory.errors import DatabaseError
from vector_memory.results.sessions import StoreMemoryResult
from vector_memory.server.tools import kind_of
from vector_memory.server.turns import FILE, HOOK, LONG_STORE, LONG_TEXT, LOOK_UP, OTHER, SEARCH, STORE, Kind
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

    def slow(*_: object) -> None:
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
    assert kind_of(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params)) is kind
    assert kind_of(JSONRPCRequest(jsonrpc="2.0", id=1, method="prompts/get", params=params)) is OTHER
