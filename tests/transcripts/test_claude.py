"""What is taken from transcripts of Claude Code, and which are refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from transcripts.conftest import LONG, SHOP, Write, agent, tool_call, user
from vector_memory.clients import claude
from vector_memory.clients.reading.conversation import Message
from vector_memory.clients.reading.lines import FormatError


def said(path: Path) -> list[Message]:
    """Return what is worth remembering of a transcript."""
    return list(claude.claude_session(path).said)


def texts(path: Path) -> list[tuple[str, str]]:
    """Return the kinds and texts."""
    return [(str(one.kind), one.content) for one in said(path)]


def test_a_real_session_gives_its_prompts_its_long_answers_and_its_summary(homes: Path) -> None:
    """With their times and agents, and without what the client writes around a summary."""
    path = next((homes / "claude").rglob("*0002.jsonl"))
    prompt, answer, summary = sorted(said(path), key=lambda one: one.time)
    assert (prompt.kind, prompt.content) == ("input_prompt", "Find out why the nightly import fails.")
    assert (answer.kind, answer.agent_id) == ("working_memory", "claude-code")
    assert answer.content.startswith("The nightly import fails because the disk")
    assert summary.kind == "session_context"
    assert summary.content.startswith("1. The user asked why the nightly import fails.")
    assert summary.content.endswith("I have changed nothing so far.")
    assert prompt.time == "2026-11-22T15:44:40.566000+00:00"
    transcript = claude.claude_session(path)
    assert (transcript.session_id, transcript.project) == ("5b1c2d3e-0000-4000-8000-000000000002", SHOP)


def test_a_real_session_with_commands_and_short_answers_gives_its_prompts(homes: Path) -> None:
    """Commands of the client are no prompts, and what a sub-agent hands back is none either."""
    path = next((homes / "claude").rglob("*0001.jsonl"))
    prompts = [one.content for one in said(path) if one.kind == "input_prompt"]
    assert prompts.count("continue") == 3
    assert "Have somebody look at the racks." in prompts
    assert len(prompts) == 6


def test_a_real_sub_agent_gives_its_report_under_its_type(homes: Path) -> None:
    """In the session that started it, with its task as the title."""
    path = next((homes / "claude").rglob("agent-*.jsonl"))
    (report,) = said(path)
    assert (report.kind, report.agent_id, report.title) == ("report", "general-purpose", "Inspect racks")
    assert report.content.startswith("The cooling fan of rack 7 is broken.")
    assert claude.claude_session(path).session_id == "5b1c2d3e-0000-4000-8000-000000000001"


def test_of_what_an_agent_writes_in_a_turn_only_the_last_text_is_an_answer(write: Write) -> None:
    """The others say what it is about to do."""
    result = user([{"type": "tool_result", "tool_use_id": "t", "content": LONG}], 3)
    path = write(user("Why?"), agent(LONG + "1", 1, "tool_use"), tool_call(2), result, agent(LONG + "2", 4))
    assert [text for _, text in texts(path)] == ["Why?", (LONG + "2").strip()]


def test_an_agent_that_is_still_at_work_has_not_answered(write: Write) -> None:
    """Its text is taken when the next prompt follows."""
    working = [user("Why?"), agent(LONG, 1, "tool_use"), tool_call(2)]
    assert texts(write(*working)) == [("input_prompt", "Why?")]
    assert texts(write(user("Why?"), agent(LONG, 1, None))) == [("input_prompt", "Why?")]
    assert len(texts(write(*working, user("Stop.", 5)))) == 3


def test_a_transcript_of_an_earlier_release_is_at_its_end_when_it_has_not_changed_for_an_hour(write: Write) -> None:
    """Its messages do not say why they end."""
    path = write(user("Why?"), agent(LONG, 1, None))
    assert len(texts(path)) == 1
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 2 * 3_600))
    assert len(texts(path)) == 2


def test_of_the_blocks_of_one_message_the_last_is_the_answer(write: Write) -> None:
    """Each block has a line of its own, and the client tells its hooks the last one."""
    first, second = agent(LONG, 1, None), agent(f"{LONG}2", 2)
    second["message"]["id"] = first["message"]["id"]
    assert texts(write(user("Why?"), first, second))[1:] == [("working_memory", f"{LONG}2")]


@pytest.mark.parametrize(
    "line",
    [
        user("<command-name>/compact</command-name>"),
        user("<local-command-stdout>Compacted</local-command-stdout>"),
        user("<bash-input>ls</bash-input>"),
        user("<task-notification>done</task-notification>"),
        user("/clear"),
        user("[Request interrupted by user for tool use]"),
        user("<system-reminder>The date is today.</system-reminder>"),
        user("   "),
        user("A note for the model", isMeta=True),
        user("Of a sub-agent, in a file of an earlier release", isSidechain=True),
        user("A copy of another session", forkedFrom={"sessionId": "s0"}),
        {"type": "novelty"},
    ],
)
def test_what_the_user_has_not_said_in_this_conversation_is_no_prompt(line: dict[str, object], write: Write) -> None:
    """It only looks like one, or is of a type that clients have added."""
    assert texts(write(line, user("Why?", 1))) == [("input_prompt", "Why?")]


def test_reminders_are_cut_from_a_prompt(write: Write) -> None:
    """The rest is what the user wrote."""
    blocks = [
        {"type": "text", "text": "<ide_selection>x</ide_selection>"},
        {"type": "text", "text": "/var/log is full"},
    ]
    assert texts(write(user(blocks))) == [("input_prompt", "/var/log is full")]


def test_a_last_line_that_is_being_written_is_left_out(write: Write) -> None:
    """The rest of the transcript is read."""
    assert texts(write(user("Why?"), json.dumps(user("Why not?"))[:40], ending="")) == [("input_prompt", "Why?")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"type": "user", "mess', "JSON"),
        ("\0" * 400, "JSON"),
        ("[]", "an object with a `type`"),
        ('{"kind": "user"}', "an object with a `type`"),
        ({**user("x"), "message": "x"}, "an object as `message`"),
        ({**user("x"), "timestamp": 12}, "a string as `timestamp`"),
        ({**user("x"), "timestamp": "yesterday"}, "a time as `timestamp`"),
        (user({"text": "x"}), "a list as `content`"),
        (user([{"text": "x"}]), "objects with a `type` in `content`"),
        (user([{"type": "text", "words": "x"}]), "a string as `text`"),
    ],
)
def test_a_line_that_is_not_as_expected_is_left_out_and_named(line: object, expected: str, write: Write) -> None:
    """With its number, and what should be there."""
    transcript = claude.claude_session(write(user("Why?"), line, user("Why not?", 1)))
    assert [str(error) for error in transcript.unread] == [f"Line 2: expected {expected}."]
    assert [one.content for one in transcript.said] == ["Why?", "Why not?"]


def test_what_stands_before_a_lost_line_is_an_answer_only_if_the_agent_had_ended(write: Write) -> None:
    """The lost line may be the answer."""
    assert [text for _, text in texts(write(user("Why?"), agent(LONG, 1, "tool_use"), "{", user("So?", 2)))] == [
        "Why?",
        "So?",
    ]
    assert len(texts(write(user("Why?"), agent(LONG), "{", user("So?", 2)))) == 3


def test_what_follows_nul_characters_on_a_line_is_read(write: Write) -> None:
    """A crash leaves them, and the client goes on behind them."""
    assert len(texts(write(user("Why?"), "\0" * 9 + json.dumps(user("So?", 1)), user("And?", 2)))) == 3


@pytest.mark.parametrize("name", ["sessionId", "cwd"])
def test_a_transcript_without_its_session_or_project_is_refused(name: str, write: Write) -> None:
    """They are on every line."""
    line = user("Why?")
    del line[name]
    with pytest.raises(FormatError, match=rf"Line 1: expected a string as `{name}`"):
        claude.claude_session(write(line))


def test_a_transcript_without_messages_yields_nothing(write: Write) -> None:
    """A client that was opened and closed."""
    assert claude.claude_session(write({"type": "queue-operation"})) is None


def test_the_agent_of_a_compaction_has_no_report(write: Write) -> None:
    """Its type is empty."""
    path = write(user("Summarize.", 0, isSidechain=True), agent(LONG, 1, isSidechain=True), name="s1/agent-x.jsonl")
    assert [kind for kind, _ in texts(path)] == ["report"]
    path.with_suffix(".meta.json").write_text('{"agentType": ""}')
    assert texts(path) == []
    path.with_suffix(".meta.json").write_text("[]")
    transcript = claude.claude_session(path)
    assert [one.agent_id for one in transcript.said] == ["subagent"]
    assert [str(error) for error in transcript.unread] == ["Line 1: expected an object in `agent-x.meta.json`."]


def linked(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Return lines with ids, each after the one before it unless it names another one."""
    for number, one in enumerate(lines):
        one.setdefault("parentUuid", f"u{number - 1}" if number else None)
        one["uuid"] = f"u{number}"
    return list(lines)


def queued(prompt: object, second: int = 2, **more: object) -> dict[str, Any]:
    """Return a line with a prompt that was sent while the agent was at work."""
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"} | more
    return {**user("", second), "type": "attachment", "attachment": attachment}


@pytest.mark.parametrize("prompt", ["Use the other disk.", [{"type": "text", "text": "Use the other disk."}]])
def test_a_prompt_that_is_sent_while_the_agent_works_is_a_prompt(prompt: object, write: Write) -> None:
    """What the agent wrote before it is no answer: it goes on."""
    path = write(user("Why?"), agent(LONG + "1", 1, "tool_use"), queued(prompt), agent(LONG + "2", 3))
    assert [text for _, text in texts(path)] == ["Why?", "Use the other disk.", LONG + "2"]


@pytest.mark.parametrize(
    "more",
    [
        {"commandMode": "task-notification"},
        {"commandMode": "bash"},
        {"isMeta": True},
        {"origin": {"kind": "peer"}},
        {"type": "file"},
    ],
)
def test_other_attachments_are_no_prompts(more: dict[str, object], write: Write) -> None:
    """The client attaches much."""
    assert texts(write(user("Why?"), queued("Done.", **more))) == [("input_prompt", "Why?")]


@pytest.mark.parametrize("mark", ["model", "isApiErrorMessage"])
def test_what_the_client_writes_in_the_agents_place_is_no_answer_and_replaces_none(mark: str, write: Write) -> None:
    """Such as an error, or that no response was requested."""
    synthetic = agent(f"API Error: 529 {LONG}", 2, "stop_sequence")
    if mark == "model":
        synthetic["message"]["model"] = "<synthetic>"
    else:
        synthetic["isApiErrorMessage"] = True
    answer = ("working_memory", LONG.strip())
    assert texts(write(user("Why?"), agent(LONG), synthetic, user("So?", 3))) == [
        ("input_prompt", "Why?"),
        answer,
        ("input_prompt", "So?"),
    ]
    assert len(texts(write(user("Why?"), synthetic))) == 1


def test_the_message_of_another_agent_is_no_prompt(write: Write) -> None:
    """Neither as tags nor by its origin."""
    mate = '<teammate-message teammate_id="lead" color="blue">\nTake the second file.\n</teammate-message>'
    told = user("Take the second file.", 1, origin={"kind": "peer"})
    assert texts(write(user("Why?"), user(mate, 1), told)) == [("input_prompt", "Why?")]


def test_what_the_user_went_back_from_is_left_out(write: Write) -> None:
    """To a later prompt, or to the first one; what tools have done side by side is no such branch."""
    later = linked(
        user("Why?"), agent(LONG, 1), user("Delete it.", 2), agent(LONG + "2", 3), user("Keep it.", 4), agent(LONG, 5)
    )
    later[4]["parentUuid"] = "u1"
    assert [text for _, text in texts(write(*later))] == ["Why?", LONG.strip(), "Keep it.", LONG.strip()]
    first = linked(user("Delete it."), agent(LONG, 1), user("Keep it.", 2), agent(LONG + "2", 3))
    first[2]["parentUuid"] = None
    assert [text for _, text in texts(write(*first))] == ["Keep it.", LONG + "2"]
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]
    tools = linked(user("Why?"), tool_call(), agent(LONG, 2, None), user(result, 3), user(result, 4), agent(LONG, 5))
    tools[3]["parentUuid"] = "u1"
    assert len(texts(write(*tools, user("So?", 6)))) == 3


def test_a_lost_line_is_no_branch(write: Write) -> None:
    """The lines before it are of the same conversation, as are those before a compaction."""
    lines = linked(user("Why?"), agent(LONG, 1), user("So?", 2), agent(LONG, 3))
    assert len(texts(write(lines[0], "{", *lines[2:]))) == 3
    boundary = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": "u1"}
    summary = user("So far: nothing.", 4, isCompactSummary=True)
    assert len(texts(write(*linked(*lines, boundary, summary, user("And?", 5))))) == 6


def test_a_summary_comes_after_the_answer_that_it_sums_up(write: Write) -> None:
    summary = user("So far: nothing.", 2, isCompactSummary=True)
    kinds = [one.kind for one in said(write(user("Why?"), agent(LONG, 1), summary, user("And?", 3)))]
    assert kinds == ["input_prompt", "working_memory", "session_context", "input_prompt"]


def test_the_name_of_a_folder_has_a_hyphen_for_each_unit_of_a_character(homes: Path) -> None:
    """As the client cuts it, too: a hash follows after 200 characters."""
    long = Path("/home/ann/" + "x" * 250)
    for project, name in {
        Path("/home/ann/🚀 shop"): "-home-ann----shop",
        Path("/home/ann/café"): "-home-ann-caf-",
        long: "-home-ann-" + "x" * 190 + "-1k2j3h",
    }.items():
        path = homes / "claude/projects" / name / "s.jsonl"
        path.parent.mkdir()
        path.write_text("")
        assert list(claude.claude_transcripts(project)) == [path]
    assert list(claude.claude_transcripts(long / "deep")) == [path]
