"""Asking the user before deleting (decision 27), in both eras."""

import functools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ElicitationCapability, FormElicitationCapability, UrlElicitationCapability
from mcp_types import ElicitResult as ElicitResultOnTheWire

from eras import Rows
from vector_memory.server.app import create_server
from vector_memory.server.tools.confirmation import can_ask
from vector_memory.settings import ServerOptions
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

CALLS: dict[str, dict[str, Any]] = {
    "delete_memory": {"memory_id": 1},
    "cleanup_old_memories": {"days_old": 0, "dry_run": False},
    "delete_by_memory_id": {"memory_id": 2},
    "clear_old_memories": {"days_old": 0, "max_to_keep": 0},
}
"""Each deletes one of the two memories."""


class User:
    """Answers every question in the same way, and records the questions."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def __call__(self, message: str, _type: object, _params: object, _context: object) -> Any:
        self.questions.append(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


FORM, URL = FormElicitationCapability(), UrlElicitationCapability()
CLIENTS = {
    "nothing declared": (None, False),
    "no way to ask": (ClientCapabilities(), False),
    "asks, of before there were modes": (ClientCapabilities(elicitation=ElicitationCapability()), True),
    "asks by form": (ClientCapabilities(elicitation=ElicitationCapability(form=FORM)), True),
    "asks by page only": (ClientCapabilities(elicitation=ElicitationCapability(url=URL)), False),
    "asks in both ways": (ClientCapabilities(elicitation=ElicitationCapability(form=FORM, url=URL)), True),
}

AGREES = ElicitResult(action="accept", content={"confirm": True})
REFUSALS = {
    "declined": ElicitResult(action="decline"),
    "cancelled": ElicitResult(action="cancel"),
    "sent the form without the tick": ElicitResult(action="accept", content={"confirm": False}),
}


@pytest.fixture(autouse=True)
def _stored(store: SessionMemoryStore) -> None:
    store.store_memory("report", "A report.", agent_id="a", session_id="s", title="Findings")
    store.tagged.store("A note.")


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="session,tagged"))


@pytest.mark.parametrize(("capabilities", "expected"), CLIENTS.values(), ids=CLIENTS)
def test_asks_only_where_a_form_can_be_shown(capabilities: ClientCapabilities | None, expected: bool) -> None:
    """Only a client that declared that it shows forms is asked to show one."""
    assert can_ask(SimpleNamespace(session=SimpleNamespace(client_capabilities=capabilities))) is expected


@pytest.mark.parametrize("can_ask", [True, False])
@pytest.mark.parametrize(("tool", "arguments"), CALLS.items(), ids=CALLS)
async def test_deletes_when_the_user_agrees_or_at_once_where_no_user_can_be_asked(
    server: FastMCP, store: SessionMemoryStore, era: str, tool: str, arguments: dict[str, Any], can_ask: bool
) -> None:
    """A client that can ask is asked once; one that declared no way to ask gets what it asked for."""
    user = User(AGREES) if can_ask else None
    async with Client(server, mode=era, elicitation_handler=user) as client:
        answer = await client.call_tool(tool, arguments)
    assert answer.structured_content["success"] is True
    assert store.count_memories() == 1
    assert user is None or len(user.questions) == 1


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(("tool", "arguments"), CALLS.items(), ids=CALLS)
async def test_keeps_when_the_user_declines(
    server: FastMCP, era: str, rows: Rows, tool: str, arguments: dict[str, Any], refusal: ElicitResult
) -> None:
    """Without the user's consent nothing changes, and the agent is told not to insist."""
    before = rows()
    async with Client(server, mode=era, elicitation_handler=User(refusal)) as client:
        answer = await client.call_tool(tool, arguments, raise_on_error=False)
    assert answer.is_error
    assert (answer.structured_content["success"], answer.structured_content["error"]) == (False, "ValidationError")
    assert "declined" in answer.structured_content["message"]
    assert rows() == before


async def test_keeps_when_asking_fails(server: FastMCP, rows: Rows) -> None:
    """A client that breaks while it asks has not agreed; the agent learns that nobody was asked."""
    before = rows()
    async with Client(server, mode="legacy", elicitation_handler=User(RuntimeError("no window"))) as client:
        answer = await client.call_tool("delete_memory", {"memory_id": 1}, raise_on_error=False)
    assert answer.is_error
    assert answer.structured_content["error"] == "ValidationError"
    assert "could not be asked" in answer.structured_content["message"]
    assert rows() == before


async def test_question_says_what_would_be_deleted(server: FastMCP, era: str) -> None:
    """The user reads what it is about, not only an id."""
    user = User(REFUSALS["declined"])
    async with Client(server, mode=era, elicitation_handler=user) as client:
        for tool, arguments in CALLS.items():
            await client.call_tool(tool, arguments, raise_on_error=False)
    assert user.questions == [
        "Delete report 1 'Findings' (9 characters)?",
        "Delete 1 memory older than 0 days, from all sessions and agents?",
        "Delete tagged_memory 2 (7 characters)?",
        "Delete 1 memory older than 0 days, least used first, and keep 0?",
    ]


async def test_asks_nothing_without_need(server: FastMCP, era: str) -> None:
    """A dry run, an unknown id and a bad argument do not bother the user."""
    user = User(AGREES)
    async with Client(server, mode=era, elicitation_handler=user) as client:
        await client.call_tool("cleanup_old_memories", {"days_old": 0})
        for tool, arguments in (
            ("delete_memory", {"memory_id": 999}),
            ("delete_memory", {"memory_id": "x"}),
            ("cleanup_old_memories", {"days_old": -1, "dry_run": False}),
        ):
            assert (await client.call_tool(tool, arguments, raise_on_error=False)).is_error
    assert user.questions == []


async def test_consent_counts_only_for_its_question(server: FastMCP, store: SessionMemoryStore) -> None:
    """In the newer era, an answer to no question asks, and an answer to a question about another memory is refused."""
    store.store_memory("report", "Another report.", agent_id="a", session_id="s")
    consent = {"confirmation": ElicitResultOnTheWire(action="accept", content={"confirm": True})}
    async with Client(server, mode="2026-07-28", elicitation_handler=User(AGREES)) as client:
        call = functools.partial(client.session.call_tool, "delete_memory", allow_input_required=True)
        asked = await call({"memory_id": 1})
        unasked = await call({"memory_id": 1}, input_responses=consent)
        with pytest.raises(MCPError, match="requestState"):
            await call({"memory_id": 3}, input_responses=consent, request_state=asked.request_state)
        assert (asked.result_type, unasked.result_type) == ("input_required", "input_required")
        assert store.count_memories() == 3
        agreed = await call({"memory_id": 1}, input_responses=consent, request_state=asked.request_state)
        assert agreed.structured_content["success"] is True
    assert store.count_memories() == 2
