"""install, a search, a store and import-sessions with the real clients, each against a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from other_clients.driven import DRIVEN, NotInstalledError, User, call_of_ours, in_shell
from other_clients.scripted import Call, Messages, Model
from vector_memory.clients.editing import hooks
from vector_memory.clients.editing.planning import NAME
from vector_memory.domain import Scope
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.real_client

QUESTION, TASK = "Find out why the nightly import fails.", "Remember the fans."
ANSWER = "The nightly import fails because the disk is full. " * 5
STORED = "Stored it: the fan of rack 7 is broken, and the spare one is in the cellar. " * 3
CAPTURED = {"continue": set[str](), "cline": {STORED.strip()}}
"""What hooks store of a session, if it is not the prompt and the answer; a prompt on Cline's command line runs none."""

REPORT = {"title": "Fans", "content": "The cooling fan of rack 7 is broken. The spare one is in the cellar."}
CALLS = [("store_report", REPORT), ("search_reports_specific_chunks", {"query": "Where is the spare fan?"})]


def told_in(messages: Messages) -> str:
    """Return what the model was told, without what it said itself."""
    return json.dumps([one for one in messages if one["role"] not in {"assistant", "model"}])


def reported_in(store: SessionMemoryStore) -> set[str]:
    """Return the prompts and answers in a memory."""
    kinds = ("input_prompt", "working_memory")
    return {one.content for kind in kinds for one in store.search_scoped(Scope(kind)).results}


def user_of(name: str, scratch: Path, model: Model) -> User:
    """Return a user of a client, or skip the test."""
    try:
        return User(name, scratch, model)
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.fixture
def model() -> Iterator[Model]:
    with Model({}) as playing:
        yield playing


@pytest.mark.parametrize("name", DRIVEN)
def test_a_client_offers_the_tools_after_install_and_calls_them_and_its_sessions_can_be_imported(
    name: str, tmp_path: Path, model: Model
) -> None:
    user, driven = user_of(name, tmp_path, model), DRIVEN[name]

    def store(messages: Messages) -> str | Call:
        told = told_in(messages)
        return STORED if REPORT["content"] in told else call_of_ours(name, messages, *CALLS["Stored report" in told])

    model.script |= {QUESTION: [ANSWER], TASK: store}
    try:
        user.ask(QUESTION)
        user.ours("install", name, "--yes", *driven.flags)
        user.ask(TASK)
        shared = user.home / ".vector-memory/memory.db"
        memory = shared if shared.exists() else user.project / "memory/agent_session_memory.db"
        with SessionMemoryStore(memory) as opened:
            (report,) = opened.search_scoped(Scope("report")).results
            assert report.content == REPORT["content"]
            opened.start_background_work()  # stores what waits
            captured = CAPTURED.get(name, {TASK, STORED.strip()})
            eventually(lambda: captured == reported_in(opened))
        assert any(REPORT["content"] in told_in(one.get("messages") or one["contents"]) for one in model.requests)
        if not driven.finds:
            assert f"{driven.prefix}search_reports_specific_chunks" in model.tools
        imported = tmp_path / "imported.db"
        user.ours("import-sessions", "--client", name, "--database-path", str(imported))
        with SessionMemoryStore(imported) as opened:
            assert {one.content for one in opened.search_scoped(Scope("input_prompt")).results} == {QUESTION, TASK}
            answers = opened.search_scoped(Scope("working_memory")).results
            assert {one.content for one in answers} == {ANSWER.strip(), STORED.strip()}
            assert {one.agent_id for one in answers} == {report.agent_id}
        user.ours("uninstall", name, "--yes")
        assert not [text for text in user.configuration().values() if '"serve"' in text]
    finally:
        if name == "cline":  # it leaves a process that every session uses
            user.run(user.command, "hub", "stop")


@pytest.mark.parametrize("is_installed", [False, True])
def test_only_an_install_of_claude_for_one_project_makes_copilot_drop_hooks_there_as_the_docs_say(
    is_installed: bool, tmp_path: Path, model: Model
) -> None:
    user = user_of("copilot", tmp_path, model)
    model.script |= {QUESTION: [ANSWER]}
    hook = {"type": "command", "command": f"touch {tmp_path / 'ran'}"}
    for place, content in (
        (user.home / ".copilot/config.json", {"trusted_folders": [str(user.project)]}),
        (user.project / ".claude/settings.local.json", {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}),
    ):
        place.parent.mkdir()
        place.write_text(json.dumps(content), encoding="utf-8")
    if is_installed:
        user.ours("install", "claude", "--project", "--yes")
    user.ask(QUESTION)
    assert (tmp_path / "ran").exists() != is_installed


INSPECTION = "Inspect the racks."
DELEGATED = {"description": "Inspect racks", "prompt": INSPECTION}
SUBAGENTS = {
    "qwen": Call("agent", {**DELEGATED, "subagent_type": "general-purpose"}),
    "opencode": Call("task", {**DELEGATED, "subagent_type": "general"}),
    "kilo": Call("task", {**DELEGATED, "subagent_type": "general"}),
    "copilot": Call("task", {**DELEGATED, "agent_type": "general-purpose", "name": "racks", "mode": "sync"}),
    "grok": Call("spawn_subagent", {**DELEGATED, "subagent_type": "general-purpose"}),
}


def kept(user: User, kind: str, expected: set[str]) -> set[str]:
    """Return the agents of the texts of a kind in the project's memory, which are these, each once."""
    with SessionMemoryStore(user.project / "memory/agent_session_memory.db") as store:
        store.start_background_work()  # stores what waits
        eventually(lambda: expected <= {one.content for one in store.search_scoped(Scope(kind)).results})
        found = store.search_scoped(Scope(kind)).results
    assert sorted(one.content for one in found) == sorted(expected)
    return {one.agent_id for one in found}


@pytest.mark.parametrize("name", SUBAGENTS)
def test_a_sub_agents_report_is_kept_and_its_task_is_not_taken_for_a_prompt(
    name: str, tmp_path: Path, model: Model
) -> None:
    user = user_of(name, tmp_path, model)
    model.script |= {TASK: [SUBAGENTS[name], STORED], INSPECTION: [REPORT["content"] + " It is behind the printers."]}
    user.ours("install", name, "--yes")
    user.ask(TASK)
    (agent,) = kept(user, "report", {REPORT["content"] + " It is behind the printers."})
    assert agent in SUBAGENTS[name].arguments.values()
    kept(user, "working_memory", {STORED.strip()})
    kept(user, "input_prompt", {TASK})


SUMMARY = "The nightly import fails because the disk is full. Its scratch folder has to move."


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_the_summary_of_a_compacted_conversation_is_kept_as_its_state(name: str, tmp_path: Path, model: Model) -> None:
    user = user_of(name, tmp_path, model)
    user.ours("install", name, "--yes")

    def turn(messages: Messages) -> str | Call:
        is_asked = "context was compacted" in json.dumps(messages[-1])
        model.tokens = 1_000 if is_asked else 199_900  # of 200,000
        return SUMMARY if is_asked else in_shell(name, "true", "Look")

    model.script |= {QUESTION: turn}
    user.ask(QUESTION)
    kept(user, "session_context", {SUMMARY})
    kept(user, "input_prompt", {QUESTION})


def test_the_summary_of_a_compacted_conversation_in_qwen_is_kept_as_its_state(tmp_path: Path, model: Model) -> None:
    user = user_of("qwen", tmp_path, model)
    user.ours("install", "qwen", "--yes")
    model.tokens, model.script = 50_000, {QUESTION: [ANSWER * 200]}
    user.ask(QUESTION)
    model.script = {QUESTION: lambda _: f"<analysis>Well.</analysis><state_snapshot>{SUMMARY}</state_snapshot>"}
    user.run(user.command, "--continue", *user.driven.words, "/compress")
    kept(user, "session_context", {SUMMARY})
    kept(user, "input_prompt", {QUESTION})


@pytest.mark.parametrize("name", ["gemini", "copilot", "opencode"])
def test_the_words_for_the_memory_can_be_typed(name: str, tmp_path: Path, model: Model) -> None:
    user = user_of(name, tmp_path, model)
    user.ours("install", name, "--yes", *user.driven.flags)
    model.script |= {"Do not remember this session.": [ANSWER], "remember: Rack 7 has no fan.": [STORED]}
    user.ask("Do not remember this session.")
    user.ask("remember: Rack 7 has no fan.")
    kept(user, "working_memory", {STORED.strip()})
    assert kept(user, "report", {"Rack 7 has no fan."}) == {"user"}
    kept(user, "input_prompt", set())


@pytest.mark.parametrize("name", ["copilot", "grok"])
def test_a_client_that_also_reads_the_hooks_for_claude_code_stores_each_event_once(
    name: str, tmp_path: Path, model: Model
) -> None:
    user = user_of(name, tmp_path, model)
    of_claude = json.dumps(hooks.added({}, NAME, hooks.handlers_for(NAME)))
    for place, text in (
        (user.home / ".copilot/config.json", json.dumps({"trusted_folders": [str(user.project)]})),
        (user.home / ".claude/settings.json", of_claude),
        (user.project / ".claude/settings.json", of_claude),
    ):
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    user.ours("install", "claude", "--project", "--yes")
    user.ours("install", name, "--yes")
    model.script |= {TASK: [STORED]}
    user.ask(TASK)
    kept(user, "working_memory", {STORED.strip()})
    kept(user, "input_prompt", {TASK})
