"""What is taken from transcripts of Codex, and which are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transcripts.conftest import LONG, SHOP
from vector_memory.transcripts import codex
from vector_memory.transcripts.conversation import Transcript
from vector_memory.transcripts.lines import FormatError

META = {"id": "c1", "cwd": SHOP, "source": "cli"}


def line(kind: str, payload: object, second: int = 0) -> dict[str, Any]:
    """Return a line of a transcript."""
    return {"timestamp": f"2026-03-04T05:06:{second:02}.000Z", "type": kind, "payload": payload}


def message(role: str, *texts: str, second: int = 0) -> dict[str, Any]:
    """Return a line with a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return line("response_item", {"type": "message", "role": role, "content": content}, second)


END = line("event_msg", {"type": "task_complete"})


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Transcript | None]:
    """Return what reads a transcript of these lines."""

    def reading(*lines: object) -> Transcript | None:
        path = tmp_path / "rollout-1.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        return codex.read(path)

    return reading


def texts(transcript: Transcript | None) -> list[tuple[str, str]]:
    """Return the kinds and texts."""
    assert transcript is not None
    return [(str(one.kind), one.content) for one in transcript.said]


def test_a_real_session_gives_its_prompt_and_its_long_answer(homes: Path) -> None:
    """And none of what the client adds for the model."""
    transcript = codex.read(next((homes / "codex").rglob("*.jsonl")))
    assert transcript is not None
    prompt, answer = transcript.said
    assert (prompt.kind, prompt.content, prompt.time) == ("input_prompt", "go", "2026-11-22T13:03:34.463000+00:00")
    assert (answer.kind, answer.agent_id) == ("working_memory", "codex-mcp-client")
    assert answer.content.startswith("The nightly import fails")
    assert (transcript.session_id, transcript.project) == ("01a2035a-d0c2-77a1-9e4a-903aa6eb3b55", SHOP)


def test_an_answer_counts_when_its_turn_is_complete(read: Callable[..., Transcript | None]) -> None:
    """Or when the next prompt follows."""
    start = [line("session_meta", META), message("user", "Why?"), message("assistant", LONG, second=1)]
    assert texts(read(*start)) == [("input_prompt", "Why?")]
    assert texts(read(*start, END)) == [("input_prompt", "Why?"), ("working_memory", LONG.strip())]
    call = line("response_item", {"type": "function_call", "name": "shell"})
    assert texts(read(*start, call)) == [("input_prompt", "Why?")]


def test_what_the_client_adds_is_no_prompt(read: Callable[..., Transcript | None]) -> None:
    """Neither alone nor beside the user's words."""
    environment = "<environment_context>\n<cwd>/home/ann/shop</cwd>\n</environment_context>"
    rules = message("user", "# AGENTS.md instructions for /home/ann/shop\n\nBe brief.")
    transcript = read(
        line("session_meta", META), message("user", environment), rules, message("user", environment, "Why?")
    )
    assert texts(transcript) == [("input_prompt", "Why?")]


def test_a_compaction_gives_its_summary(read: Callable[..., Transcript | None]) -> None:
    """Codex writes it as a line of its own."""
    transcript = read(line("session_meta", META), line("compacted", {"message": "So far: nothing."}))
    assert texts(transcript) == [("session_context", "So far: nothing.")]


def test_a_sub_agent_gives_its_report_in_the_session_that_started_it(
    read: Callable[..., Transcript | None],
) -> None:
    """Its prompts are a model's."""
    meta = META | {"session_id": "root", "source": {"subagent": "review"}}
    transcript = read(line("session_meta", meta), message("user", "Review it."), message("assistant", LONG), END)
    assert transcript is not None
    assert transcript.session_id == "root"
    assert [(one.kind, one.agent_id) for one in transcript.said] == [("report", "review")]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([{"type": "turn_context"}], "Line 1: expected a line of type `session_meta`."),
        ([line("session_meta", {"id": "c1"})], "Line 1: expected a string as `cwd`."),
        ([line("session_meta", META), line("response_item", [])], "Line 2: expected an object as `payload`."),
        ([line("session_meta", META), line("response_item", {})], "Line 2: expected a string as `payload.type`."),
        ([line("session_meta", META), line("compacted", {})], "Line 2: expected a string as `message`."),
        ([{"id": "c1", "instructions": None}], "Line 1: expected an object with a `type`."),
    ],
)
def test_a_line_that_is_not_as_expected_is_named(
    lines: list[object], reason: str, read: Callable[..., Transcript | None]
) -> None:
    """With its number, and what should be there."""
    with pytest.raises(FormatError) as raised:
        read(*lines)
    assert str(raised.value) == reason


def test_an_empty_transcript_is_nothing(read: Callable[..., Transcript | None]) -> None:
    """A client that was opened and closed."""
    assert read() is None
