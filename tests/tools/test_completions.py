"""Names that a client offers while its user types."""

import pytest
from fastmcp import Client
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

PROMPT = PromptReference(type="ref/prompt", name="hand_over")
TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="memory://sessions/{session_id}")


@pytest.fixture(autouse=True)
def named(store: SessionMemoryStore) -> None:
    """Sessions, agents and tasks; the most recently used is listed last."""
    for session, agent, task in (
        ("alpha-1", "researcher", "find"),
        ("beta", "writer", "write"),
        ("Alpha-2", "reviewer", None),
        ("not alpha", "writer", "write again"),
    ):
        store.store_memory("report", f"{session} {agent}", session_id=session, agent_id=agent, task_code=task)
    store.store_memory("knowledge_base", "x", agent_id="librarian", title="T")


async def completed(client: Client, argument: str, typed: str, reference: object = PROMPT, **chosen: str) -> Completion:
    return await client.complete(reference, {"name": argument, "value": typed}, chosen or None)


@pytest.mark.parametrize("reference", [PROMPT, TEMPLATE], ids=["prompt", "template"])
async def test_sessions_that_begin_with_what_is_typed_come_first_then_those_used_last(
    client: Client, reference: object
) -> None:
    found = await completed(client, "session_id", "alpha", reference)
    assert found.values == ["Alpha-2", "alpha-1", "not alpha"]
    assert (found.total, found.has_more) == (3, False)
    everything = await completed(client, "session_id", "", reference)
    assert everything.values == ["not alpha", "Alpha-2", "beta", "alpha-1"]


async def test_agents_and_tasks_come_from_the_chosen_session(client: Client) -> None:
    assert (await completed(client, "agent_id", "")).values == ["writer", "reviewer", "researcher"]
    assert (await completed(client, "agent_id", "", session_id="beta")).values == ["writer"]
    assert (await completed(client, "agent_id", "re", session_id="beta")).values == []
    assert (await completed(client, "task_code", "w")).values == ["write again", "write"]
    assert (await completed(client, "task_code", "", session_id="Alpha-2")).values == []


@pytest.mark.parametrize("typed", ["%", "_", "'", '"', "*", "\\", "a%", "x" * 5_000])
async def test_typed_text_is_not_a_pattern(client: Client, typed: str) -> None:
    assert (await completed(client, "session_id", typed)).values == []


async def test_other_arguments_are_not_completed(client: Client) -> None:
    assert (await completed(client, "task", "w")).values == []
    assert (await completed(client, "content", "w")).values == []


async def test_some_of_many_are_named_with_the_total_number(
    client: Client, store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vector_memory.reading.overview.MAX_LIMIT", 10)
    for number in range(12):
        store.store_memory("input_prompt", "x", session_id=f"many-{number}", session_iter=1)
    found = await completed(client, "session_id", "many")
    assert found.values == [f"many-{number}" for number in range(11, 1, -1)]
    assert (found.total, found.has_more) == (12, True)
