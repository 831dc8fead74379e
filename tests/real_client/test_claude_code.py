"""What agents in the real Claude Code get from the plugin's tools."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.effort import effort
from forked import finished
from real_client.claude_code import Session, User
from real_client.much import ASKING_FOR_MUCH, LONG_DOCUMENTS
from real_client.received import Answer
from real_client.scripted_model import PLUGIN, Call, ScriptedModel, Turn, memory
from vector_memory.server.instructions import instructions_for
from vector_memory.settings import Answers, ServerOptions
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.real_client

WHO = {"agent_id": "engineer", "session_id": "outage"}


@pytest.fixture(scope="module")
def shared(claude: Path, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(claude, tmp_path_factory.mktemp("shared"), model)


@pytest.fixture(scope="module")
def session(shared: User) -> Iterator[Session]:
    """A session that several tests share: starting the client takes most of a test's time."""
    with shared.session() as running:
        yield running


@pytest.fixture(scope="module")
def session_with_all_tools(shared: User) -> Iterator[Session]:
    with shared.session(VECTOR_MEMORY_PROFILE="full") as running:
        yield running


def test_what_an_agent_stores_is_found_by_its_meaning(session: Session) -> None:
    stored, found = session.ask(
        "Why did the server stop?",
        [memory("store_report", content="An engineer replaced the broken cooling fan.", **WHO)],
        [memory("search_reports_specific_chunks", query="hardware failure: a ventilator", session_id="outage")],
    )
    (result,) = found.fields["results"]
    assert result["memory_id"] == stored.fields["memory_id"]
    assert result["content"] == "An engineer replaced the broken cooling fan."


def test_the_longest_answer_arrives_whole(session: Session) -> None:
    *_, found = session.ask("What do all pages say?", *ASKING_FOR_MUCH)
    assert len(found.fields["results"]) == len(LONG_DOCUMENTS)
    assert 40_000 < len(found.text) < 48_000, "the longest that every client hands on"


def test_the_message_of_an_error_reaches_the_agent(session: Session) -> None:
    (answer,) = session.ask("What is in memory 999?", [memory("get_memory_by_id", memory_id=999)])
    assert answer.failed
    assert "There is no memory 999" in answer.text


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        ("remember this", "store_"),
        ("save memory", "store_"),
        ("continue where we left off", "session"),
        ("what did we do last time", "session"),
        ("search memory", "search_"),
    ],
)
def test_an_agent_that_looks_for_a_tool_is_shown_one_of_the_memory(
    session_with_all_tools: Session, words: str, tool: str
) -> None:
    looking = [Call("ToolSearch", {"query": words, "max_results": 3})]
    (answer,) = session_with_all_tools.ask(f"Is there a tool for: {words}?", looking)
    assert tool in answer.text
    assert "vector-memory" in answer.text


def test_an_agent_need_not_look_for_what_it_always_needs(session: Session, model: ScriptedModel) -> None:
    session.ask("Which tools are there?")
    shown = {tool["name"] for tool in model.requests[-1].body["tools"]}
    needed = ("store_report", "search_reports_specific_chunks", "load_session_context_for_task")
    assert shown >= {PLUGIN + name for name in needed}


def test_the_instructions_reach_the_agent_to_their_last_word(
    session_with_all_tools: Session, model: ScriptedModel
) -> None:
    session_with_all_tools.ask("What do you know about the memory?")
    assert instructions_for(ServerOptions(answers=Answers.LEAN)).strip() in model.requests[-1].text


def test_two_clients_use_one_memory_at_once(user: User, model: ScriptedModel) -> None:
    both_have_stored = threading.Barrier(2, timeout=60)

    def after_both(turn: Turn) -> Turn:
        both_have_stored.wait()
        return turn

    names = ("first", "second")
    for name in names:
        texts = [f"Finding {number} of the {name} client." for number in range(10)]
        model.script[f"You are the {name}."] = [
            *([memory("store_report", agent_id=name, session_id="both", content=text)] for text in texts),
            lambda: after_both([memory("search_changes", session_id="both", limit=100)]),
        ]

    def seen_by(name: str) -> set[str]:
        with user.session() as session:
            session.ask(f"You are the {name}.")
            return {result["agent"] for result in last_answer(model, name).fields["results"]}

    with ThreadPoolExecutor() as clients:
        assert list(clients.map(seen_by, names)) == [set(names)] * 2
    with SessionMemoryStore(user.database) as store:
        assert store.get_session_stats(session_id="both").total_memories == 20


def last_answer(model: ScriptedModel, name: str) -> Answer:
    """Return the last answer that this client's agent has received."""
    prompt = f"You are the {name}."
    return next(request.answers[-1] for request in reversed(model.requests) if request.newest({prompt})[0])


def test_nothing_acknowledged_is_lost_when_the_client_is_killed(user: User, model: ScriptedModel) -> None:
    moments = random.Random(8)
    acknowledged: list[Answer] = []
    stored: set[str] = set()
    for attempt in range(effort(quick=4, long=40)):
        prompt = f"Store until you are killed ({attempt})."
        texts = [f"Finding {number} of attempt {attempt}." for number in range(200)]
        model.script[prompt] = [[memory("store_report", content=text, **WHO)] for text in texts]
        stored.update(texts)
        with user.session() as session:
            session.type(prompt)
            if attempt % 2:
                eventually(session.answers)
                time.sleep(moments.uniform(0, 0.5))
            else:
                time.sleep(moments.uniform(0, 5))
            session.kill()
        acknowledged += session.answers()
    assert finished("doctor", "--database-path", user.database).returncode == 0
    with SessionMemoryStore(user.database) as store:
        for receipt in acknowledged:
            assert store.get_memory_by_id(receipt.fields["memory_id"]).memory.content in stored
    assert acknowledged
