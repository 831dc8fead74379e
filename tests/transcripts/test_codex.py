"""What is taken from transcripts of Codex, and which are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transcripts.conftest import LONG, SHOP
from vector_memory.clients import codex
from vector_memory.clients.reading.conversation import Transcript
from vector_memory.clients.reading.lines import FormatError, zstd

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
        return codex.codex_session(path)

    return reading


def texts(transcript: Transcript | None) -> list[tuple[str, str]]:
    """Return the kinds and texts."""
    return [(str(one.kind), one.content) for one in transcript.said]


def test_a_real_session_gives_its_prompt_and_its_long_answer(homes: Path) -> None:
    """And none of what the client adds for the model."""
    transcript = codex.codex_session(next((homes / "codex").rglob("*.jsonl")))
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
    assert texts(
        read(line("session_meta", META), message("user", environment), rules, message("user", environment, "Why?"))
    ) == [("input_prompt", "Why?")]


def test_a_compaction_gives_its_summary(read: Callable[..., Transcript | None]) -> None:
    """Codex writes it as a line of its own."""
    transcript = read(line("session_meta", META), line("compacted", {"message": "So far: nothing."}))
    assert texts(transcript) == [("session_context", "So far: nothing.")]


def test_a_sub_agent_gives_its_report_in_the_session_that_started_it(read: Callable[..., Transcript | None]) -> None:
    """Its prompts are a model's."""
    meta = META | {"session_id": "root", "source": {"subagent": "review"}}
    transcript = read(line("session_meta", meta), message("user", "Review it."), message("assistant", LONG), END)
    assert transcript.session_id == "root"
    assert [(one.kind, one.agent_id) for one in transcript.said] == [("report", "review")]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([{"type": "turn_context"}], "Line 1: expected a line of type `session_meta`."),
        ([line("session_meta", {"id": "c1"})], "Line 1: expected a string as `cwd`."),
        ([{"id": "c1", "instructions": None}], "Line 1: expected an object with a `type`."),
    ],
)
def test_a_transcript_whose_first_line_is_not_as_expected_is_refused(
    lines: list[object], reason: str, read: Callable[..., Transcript | None]
) -> None:
    """Nobody knows whose it is."""
    with pytest.raises(FormatError) as raised:
        read(*lines)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (line("response_item", []), "an object as `payload`"),
        (line("response_item", {}), "a string as `payload.type`"),
        (line("compacted", {}), "a string as `message`"),
        ({"id": "c1"}, "an object with a `type`"),
    ],
)
def test_a_line_that_is_not_as_expected_is_left_out_and_named(
    bad: object, expected: str, read: Callable[..., Transcript | None]
) -> None:
    """With its number, and what should be there."""
    transcript = read(line("session_meta", META), message("user", "Why?"), bad, message("user", "So?", second=1))
    assert [str(error) for error in transcript.unread] == [f"Line 3: expected {expected}."]
    assert [one.content for one in transcript.said] == ["Why?", "So?"]


@pytest.mark.parametrize(
    "prompt",
    [
        "<Button>Save</Button>",
        "<div>\n<p>Why is this not shown?</p>\n</div>",
        "# AGENTS.md instructions are ignored, why?",
        "/data is full, what can I delete?",
    ],
)
def test_a_prompt_that_looks_like_the_clients_text_is_kept(prompt: str, read: Callable[..., Transcript | None]) -> None:
    """It is the user's."""
    assert texts(read(line("session_meta", META), message("user", prompt))) == [("input_prompt", prompt)]


def test_open_tabs_are_cut_from_a_prompt(read: Callable[..., Transcript | None]) -> None:
    """An editor puts them in front."""
    tabs = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py: src/a.py\n\n## My request for Codex:\nWhy?\n"
    assert texts(read(line("session_meta", META), message("user", tabs))) == [("input_prompt", "Why?")]


def test_what_the_user_went_back_from_is_left_out(read: Callable[..., Transcript | None]) -> None:
    """With what the agent answered to it."""
    back = line("event_msg", {"type": "thread_rolled_back", "num_turns": 2})
    turns = [
        part
        for number in (1, 2, 3)
        for part in (message("user", f"Prompt {number}"), message("assistant", f"{LONG}{number}"), END)
    ]
    found = texts(read(line("session_meta", META), *turns, back, message("user", "Keep it.")))
    assert [text for _, text in found] == ["Prompt 1", f"{LONG}1", "Keep it."]


def test_a_compressed_transcript_is_read(homes: Path) -> None:
    """The client compresses those of past weeks; while it does, both are there."""
    path = next((homes / "codex").rglob("*.jsonl"))
    plain = codex.codex_session(path)
    compressed = path.with_name(f"{path.name}.zst")
    compressed.write_bytes(zstd.compress(path.read_bytes()))
    assert list(codex.codex_transcripts(Path(SHOP))) == [path]
    path.unlink()
    assert list(codex.codex_transcripts(Path(SHOP))) == [compressed]
    assert codex.codex_session(compressed).said == plain.said
    lines = zstd.decompress(compressed.read_bytes()).splitlines(keepends=True)
    cut_off = compressed.read_bytes()[:-40]
    compressed.write_bytes(b"".join(map(zstd.compress, lines)))  # in several frames
    assert codex.codex_session(compressed).said == plain.said
    compressed.write_bytes(cut_off)
    with pytest.raises(FormatError, match="expected compressed data"):
        codex.codex_session(compressed)


def test_what_a_fork_has_copied_is_left_out(homes: Path) -> None:
    """It was said in the session that it was forked from."""
    path = next((homes / "codex").rglob("*.jsonl"))
    first, *rest = path.read_text().splitlines()
    meta = json.loads(first)
    meta["payload"] |= {"id": "fork", "forked_from_id": meta["payload"]["id"]}
    fork = path.with_name("rollout-fork.jsonl")
    fork.write_text("\n".join([json.dumps(meta), first, *rest, json.dumps(message("user", "And now?"))]) + "\n")
    assert texts(codex.codex_session(fork)) == [("input_prompt", "And now?")]
    path.unlink()
    assert len(texts(codex.codex_session(fork))) == 3


def test_an_empty_transcript_is_nothing(read: Callable[..., Transcript | None]) -> None:
    """A client that was opened and closed."""
    assert read() is None
