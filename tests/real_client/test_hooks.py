"""What the plugin's hooks store and tell in the real Claude Code, without being asked."""

import json
import os
import shutil
from pathlib import Path

import pytest

from real_client.claude_code import User
from real_client.received import COMPACT
from real_client.scripted_model import Call, Say, ScriptedModel, Turn, memory
from vector_memory.clients.reading.importing import Importer
from vector_memory.domain import Scope
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.real_client

QUESTION = "Find out why the nightly import fails."
ANSWER = (
    "The nightly import fails because the disk of the staging machine is full: the job writes its temporary files to "
    "the root partition. It needs 40 GB, and 12 GB are left. Moving its scratch folder to the data partition would "
    "repair it; I have changed nothing so far."
)
PLAN = (
    "The plan: first the job's scratch folder moves to the data partition, then the import runs again by hand, and at "
    "last a check of the free space is added before each run. Each of these steps can be taken back within a minute."
)
TASK = "Inspect the racks and report what is broken."
REPORT = "The cooling fan of rack 7 is broken. The spare one is in the cellar, on the shelf beside the old printers."
SECRETS = {
    "an access key": "AKIAQ3EGRZ7X2LKD5JWM",
    "a token": "ghp_w7Jq2ZkX9vR4mT1yB8nLc5HdGf3sPaE6uKoI",
    "a password in an address": "Tr0ub4dor-7x9Qz2",
    "a private remark": "the merger with Initech",
}
WAITING_UV = """#!/bin/sh
until [ -e "$GATE" ]; do sleep 0.1; done
exec "$UV" "$@"
"""

ODD_PROMPTS = [
    "continue",
    "continue",
    "Quote \"this\", 'that' and ${session_id}, {{this}} and \\ too.\nAnd a second line: é, 漢字, 🚀.",
    "A long one. " + "Words and more words of a pasted log. " * 2_500,
    "<private>Nothing else.</private>",
]


def delegating(model: ScriptedModel, *, in_background: bool = False) -> list[Turn]:
    """Return the turns of an agent that has another one look at the racks."""
    model.script[TASK] = [[Say(REPORT)]]
    task = {"description": "Inspect racks", "prompt": TASK, "subagent_type": "general-purpose"}
    return [[Call("Agent", {**task, "run_in_background": in_background})], [Say("They have gone to the racks.")]]


def stored(user: User, kind: str) -> list[str]:
    """Return the texts of this kind in the user's memory."""
    with SessionMemoryStore(user.database) as store:
        return [found.content for found in store.search_scoped(Scope(kind)).results]


def test_a_second_session_is_told_what_the_first_left(user: User, model: ScriptedModel) -> None:
    with user.session() as first:
        first.ask(QUESTION, [Say(ANSWER)])
        assert "staging machine" not in first.told()
    with user.session() as second:
        eventually(lambda: second.ask("Repair it now.", [Say("Repaired.")]) or second.told())
        recap = second.told()
        assert QUESTION in recap
        assert "the disk of the staging machine is full" in recap
        assert recap.strip() in model.requests[-1].text
        second.ask("Thank you. Is there anything else?")
        assert second.told().count(QUESTION) == 1


def test_a_session_that_begins_before_its_server_is_told_as_soon_as_the_server_is_there(
    user: User, tmp_path: Path
) -> None:
    with user.session() as first:
        first.ask(QUESTION, [Say(ANSWER)])
    waiting, gate = tmp_path / "bin" / "uv", tmp_path / "gate"
    waiting.parent.mkdir()
    waiting.write_text(WAITING_UV, encoding="utf-8")
    waiting.chmod(0o755)
    variables = {"PATH": f"{waiting.parent}:{os.environ['PATH']}", "UV": str(shutil.which("uv")), "GATE": str(gate)}
    with user.session(MCP_CONNECTION_NONBLOCKING="1", **variables) as second:
        second.ask("Repair it now.", [Say(PLAN)])
        assert second.told() == ""
        gate.touch()
        eventually(lambda: second.ask("Go on, please.") or second.told())
        assert QUESTION in second.told()
        eventually(lambda: len(stored(user, "working_memory")) == 2)
    assert stored(user, "input_prompt").count("Repair it now.") == 1, "though no hook has told of it"
    assert sorted(stored(user, "working_memory")) == sorted([ANSWER, PLAN])


def test_what_hooks_have_stored_is_not_stored_again_from_the_transcript(
    user: User, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with user.session() as session:
        model.script["One.\n\n  And two."] = [[Say("I am looking. "), Say(f"  {ANSWER}\n\n")]]
        session.ask(" One.\n\n  And two. ")
        session.ask(f"A key: {SECRETS['a token']} <system-reminder>It is late.</system-reminder>", [Say(PLAN)])
        session.ask("Have somebody look at the racks.", *delegating(model))
        session.ask(COMPACT, [Say(f"<analysis>...</analysis>\n<summary>1. {ANSWER}\n\n2. {PLAN}</summary>")])
        session.ask("Thank you.", [Say(f"{ANSWER} {PLAN}")])
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user.home / ".claude"))
    with SessionMemoryStore(user.database) as store:
        imported = Importer(store).run(["claude"], user.project, lambda _done, _total: None)
    assert (imported.stored, imported.unread) == ({}, [])
    assert imported.skipped == 9


def test_what_a_sub_agent_reports_is_found(user: User, model: ScriptedModel) -> None:
    with user.session() as session:
        session.ask("Have somebody look at the racks.", *delegating(model))
        (found,) = session.ask(
            "Did anybody find a hardware failure?",
            [memory("search_reports_specific_chunks", query="hardware failure: a ventilator")],
        )
    (result,) = found.fields["results"]
    assert result["content"] == REPORT
    assert result["agent"] == "general-purpose"


def test_the_end_of_an_agent_in_the_background_is_not_taken_for_a_prompt(user: User, model: ScriptedModel) -> None:
    with user.session() as session:
        session.ask("Have somebody look at the racks.", *delegating(model, in_background=True))
        eventually(lambda: session.results() == 2)
    assert len(session.hooks("UserPromptSubmit")) == 2, "the client tells hooks of the end as if it were a prompt"
    assert stored(user, "input_prompt") == ["Have somebody look at the racks."]
    assert stored(user, "report") == [REPORT]


def test_a_secret_that_the_user_types_is_in_no_byte_of_the_memory(user: User) -> None:
    key, token, password, remark = SECRETS.values()
    with user.session() as session:
        blue = f"Deploy the blue service with {key}, and with the token {token} for GitHub."
        session.ask(blue, [Say(f"{ANSWER} As you said: {blue}")])
        session.ask(f"The database of the green service is postgres://admin:{password}@db.example.com/orders.")
        session.ask(f"Plan the red service. <private>It is for {remark}.</private>", [Say(ANSWER)])
        assert_clean(user)
    assert_clean(user)
    prompts = " ".join(stored(user, "input_prompt"))
    for word in ("blue", "GitHub", "green", "orders", "red"):
        assert word in prompts


def assert_clean(user: User) -> None:
    """Look into every file that the memory's server writes, and into the client's log of it."""
    folders = [user.database.parent, user.home / ".claude" / "cwe", user.home / ".cache" / "claude-cli-nodejs"]
    files = [user.log, *(path for folder in folders for path in folder.rglob("*") if path.is_file())]
    assert user.database in files
    leaked = [(name, path.name) for path in files for name, secret in SECRETS.items() if holds(path, secret)]
    assert leaked == []


def holds(path: Path, secret: str) -> bool:
    """Say whether a file holds these words in any spelling that a copy of the text could have."""
    content = path.read_bytes()
    return any(secret.encode(encoding) in content for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def test_the_summary_of_a_compacted_session_is_stored_without_its_analysis(user: User) -> None:
    summary = f"1. The user asked why the nightly import fails. 2. {ANSWER}"
    with user.session() as session:
        session.ask(QUESTION, [Say(ANSWER)])
        session.ask(COMPACT, [Say(f"<analysis>Let me think aloud.</analysis>\n<summary>{summary}</summary>")])
    (context,) = stored(user, "session_context")
    assert "the disk of the staging machine is full" in context
    assert "think aloud" not in context
    assert stored(user, "report") == [], "Claude Code has a sub-agent write the summary"


def test_no_hook_fails_whatever_the_user_types(user: User, model: ScriptedModel) -> None:
    with user.session() as session:
        for prompt in ODD_PROMPTS:
            session.ask(prompt)
        session.ask("Have somebody look at the racks.", *delegating(model))
        session.ask(COMPACT, [Say(f"<analysis>...</analysis><summary>{ANSWER}</summary>")])
        session.ask("continue")
    assert {hook["hook_event"] for hook in session.hooks()} >= {"UserPromptSubmit", "Stop", "SubagentStop"}
    assert [hook for hook in session.hooks() if hook["outcome"] != "success" or hook["stderr"]] == []
    shown = json.dumps(session.events)
    assert "hook_compaction] completed successfully" in shown, "the client reports this hook in a text"
    assert "hook error" not in shown
