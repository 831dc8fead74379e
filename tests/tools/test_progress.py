"""Progress of long stores, and receipts that say what was indexed."""

from collections.abc import Callable
from unittest.mock import Mock

import pytest
from anyio import BrokenResourceError
from fastmcp import Client
from mcp.server.session import ServerSession

from engines import counts, execute
from eras import Call
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.indexer import BATCH, Indexer

pytestmark = pytest.mark.anyio

LONG = "\n\n".join(f"## Part {part}\n\n" + f"Word {part} and more of it. " * 90 for part in range(30))
REPORT = {"agent_id": "a", "session_id": "s", "content": LONG}

Told = list[tuple[float, float | None, str | None]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def listen(told: Told) -> Callable[..., object]:
    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    return listen


async def test_a_client_that_asks_receives_the_progress_of_a_long_store(
    client: Client, told: Told, listen: Callable[..., object]
) -> None:
    answer = await client.call_tool("store_report", REPORT, progress_handler=listen)
    passages = answer.structured_content["passages_created"]
    assert passages > 2 * BATCH
    steps = [*range(BATCH, passages, BATCH), passages]
    assert [(progress, total) for progress, total, _ in told] == [(step, passages) for step in steps]
    assert told[0][2] == f"Embedded {BATCH} of {passages} passages."


async def test_all_progress_is_sent_before_the_answer(
    client: Client, told: Told, listen: Callable[..., object]
) -> None:
    """Nothing follows after the answer: the protocol forbids it."""
    await client.call_tool("store_report", REPORT, progress_handler=listen)
    before = len(told)
    await client.call_tool("list_sessions")
    assert len(told) == before
    assert told[-1][0] == told[-1][1]


async def test_every_kind_of_memory_reports_its_progress(
    client: Client, told: Told, listen: Callable[..., object]
) -> None:
    here, agent = {"session_id": "s", "session_iter": 1}, {"agent_id": "a", "session_id": "s"}
    for tool, arguments in {
        "store_session_context": here,
        "store_input_prompt": here,
        "store_system_memory": agent,
        "store_report": agent,
        "store_report_observation": agent,
        "store_working_memory": agent,
        "store_knowledge_base": {"agent_id": "a", "title": "T"},
    }.items():
        told.clear()
        await client.call_tool(tool, {**arguments, "content": f"Short, for {tool}."}, progress_handler=listen)
        assert [(progress, total) for progress, total, _ in told] == [(1, 1)], tool


async def test_a_client_that_cannot_receive_progress_loses_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise BrokenResourceError

    monkeypatch.setattr(ServerSession, "report_progress", broken)
    assert (await client.call_tool("store_report", REPORT)).structured_content["success"]


async def test_receipts_say_what_was_indexed(call: Call) -> None:
    report = (await call("store_report", agent_id="a", session_id="s", content="# T\n\nSome words.")).structured_content
    assert report["chunks_created"] == report["passages_created"] == 1
    assert report["token_count"] > 0
    assert report["message"] == (
        f"Stored report 1: 16 characters, {report['token_count']} tokens, all of it indexed: 1 chunk, 1 passage."
    )
    prompt = await call("store_input_prompt", session_id="s", session_iter=1, content="Do it.")
    assert prompt.structured_content["message"] == (
        "Stored input_prompt 2: 6 characters, all of it indexed: 1 passage."
    )
    assert prompt.structured_content["token_count"] is None


async def test_the_passages_that_a_receipt_counts_contain_the_whole_text(call: Call, store: SessionMemoryStore) -> None:
    """No character but white space is outside the passages that have a vector."""
    for tool in ("store_report", "store_system_memory"):
        receipt = (await call(tool, **REPORT)).structured_content
        spans = passages(store, receipt["memory_id"])
        assert len(spans) == receipt["passages_created"]
        covered = set().union(*(range(start, end) for start, end in spans))
        assert all(LONG[at].isspace() for at in set(range(len(LONG))) - covered)


def passages(store: SessionMemoryStore, memory_id: int) -> list[tuple[int, int]]:
    """Return where the passages with vectors begin and end."""
    found = counts(store)
    assert found["memory_passages"] == found["vectors"]
    return execute(store, "select start_char, end_char from memory_passages where memory_id = ?", memory_id)


async def test_a_receipt_without_a_model_says_what_is_not_indexed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Indexer, "embed", Mock(side_effect=EmbeddingUnavailableError("There is no model.")))
    receipt = (await call("store_report", agent_id="a", session_id="s", content="Some words.")).structured_content
    assert (receipt["chunks_created"], receipt["passages_created"]) == (1, 0)
    assert "1 chunk, searchable by words, but not yet by meaning." in receipt["message"]
