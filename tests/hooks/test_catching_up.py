"""What was said before the server was ready is taken from the client's transcript of the session, and nothing else."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, sleep

from hook_texts import PROMPT
from transcripts.conftest import LONG, SHOP, Write, agent, user, write
from vector_memory.clients.reading import importing
from vector_memory.domain import Project
from vector_memory.server.hooks import capture
from vector_memory.settings import Settings

__all__ = ["write"]

pytestmark = pytest.mark.anyio

HERE = Project(SHOP, owns_memory=True)
ANSWER = LONG.strip()
FIRST, NEXT = "Why does the import fail?", "Go on, please."


def ago(**time: float) -> str:
    """Return a time in the past as clients write it."""
    return (datetime.now(UTC) - timedelta(**time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_turn(**time: float) -> list[dict[str, Any]]:
    """Return the lines of a prompt and its answer."""
    return [user(FIRST, timestamp=ago(**time)), agent(ANSWER, timestamp=ago(**time))]


async def ask(talk: Any, path: Path | str, prompt: str = NEXT, session_id: str = "s1") -> str | None:
    """Send a prompt as a client with transcripts does, and wait until everything is stored."""
    told = await talk.hook("hook_prompt", session_id=session_id, transcript_path=str(path), prompt=prompt)
    await settled(talk)
    return told


async def settled(talk: Any) -> None:
    """Wait until hooks have done what nobody waits for."""
    while capture.at_work or talk.store.intake.delivery.is_busy:
        await sleep(0.01)


def contents(talk: Any) -> list[str]:
    """Return what is stored, in the order in which it was said."""
    return [one.content for one in sorted(talk.memories(), key=lambda one: one.created_at)]


async def test_what_was_said_before_the_server_was_ready_is_stored_with_the_next_prompt(
    talking: Callable[..., Any], write: Write
) -> None:
    path = write(*first_turn(minutes=1))
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        found = [(one.memory_type, one.agent_id, one.session_id, one.metadata) for one in talk.memories()]
        assert contents(talk) == [FIRST, ANSWER, NEXT]
    of_shop = {"project": SHOP}
    assert ("input_prompt", "main-orchestrator", "s1", of_shop) in found
    assert ("working_memory", "fastmcp", "s1", of_shop) in found


async def test_a_session_of_one_prompt_is_stored_when_it_is_answered(
    talking: Callable[..., Any], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the client writes the transcript after it has called the hook."""
    monkeypatch.setattr(capture, "ATTEMPTS", 1_000)
    async with talking(project=HERE) as talk, create_task_group() as both:
        path = write("")
        both.start_soon(lambda: talk.hook("hook_answer", session_id="s1", transcript_path=str(path)))
        await sleep(0.3)
        write(user(FIRST, timestamp=ago()))
        while not contents(talk):
            await sleep(0.01)
        assert contents(talk) == [FIRST]


async def test_the_prompt_after_it_is_told_the_recap(talking: Callable[..., Any], write: Write) -> None:
    async with talking(project=HERE) as talk:
        await talk.prompt("s0", PROMPT)
        path = write(*first_turn(minutes=1))
        await talk.hook("hook_answer", session_id="s1", transcript_path=str(path))
        await settled(talk)
        assert FIRST in contents(talk)
        assert PROMPT in (await ask(talk, path) or "")


async def test_what_a_hook_has_stored_is_not_stored_again(talking: Callable[..., Any], write: Write) -> None:
    prompt = f"  {FIRST} <private>Quietly.</private>\n<system-reminder>It is late.</system-reminder>\n"
    path = write(user(prompt, timestamp=ago()), agent(f"{ANSWER}\n \n", timestamp=ago()))
    async with talking(project=HERE) as talk:
        answer = {"last_assistant_message": f"{ANSWER}\n \n", "transcript_path": str(path)}
        await ask(talk, path, prompt)
        await talk.hook("hook_answer", session_id="s1", **answer)
        await settled(talk)
        assert sorted(contents(talk)) == [ANSWER, f"{FIRST} [redacted: private]"]


async def test_a_prompt_that_was_repeated_is_stored_as_often(talking: Callable[..., Any], write: Write) -> None:
    """Whether a hook reports it or the transcript has it."""
    path = write(
        user(NEXT, timestamp=ago(minutes=2)), agent(ANSWER, timestamp=ago(minutes=1)), user(NEXT, timestamp=ago())
    )
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        assert contents(talk) == [NEXT, ANSWER, NEXT]
        await ask(talk, path)
        assert contents(talk) == [NEXT, ANSWER, NEXT, NEXT]
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        assert contents(talk) == [NEXT, ANSWER, NEXT, NEXT, NEXT]


async def test_what_was_deleted_does_not_come_back(talking: Callable[..., Any], write: Write) -> None:
    path = write(*first_turn(minutes=1))
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        talk.store.delete_memory(next(one.id for one in talk.memories() if one.content == FIRST))
        await ask(talk, path, "And now?")
    async with talking(project=HERE) as talk:
        await ask(talk, path, "And then?")
        assert FIRST not in contents(talk)


@pytest.mark.parametrize("how", ["deleted", "superseded"])
async def test_a_session_that_is_gone_does_not_come_back_with_another_server(
    how: str, talking: Callable[..., Any], write: Write
) -> None:
    """Neither what hooks stored, at times of their own, nor what came from the transcript."""
    path = write(*first_turn(minutes=2), user(NEXT, timestamp=ago()))
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        await talk.hook("hook_answer", session_id="s1", last_assistant_message=f"{ANSWER} {ANSWER}")
        await settled(talk)
        assert contents(talk) == [FIRST, ANSWER, NEXT, f"{ANSWER} {ANSWER}"]
        for memory in talk.memories():
            if how == "deleted":
                talk.store.delete_memory(memory.id)
            else:
                newer = talk.store.store_memory("report", f"Instead of {memory.id}.", session_id="s2", agent_id="a")
                talk.store.supersede(newer.memory_id, memory.id)
    write(*first_turn(minutes=2), user(NEXT, timestamp=ago(seconds=1)), agent(f"{ANSWER} {ANSWER}", timestamp=ago()))
    async with talking(project=HERE) as talk:
        await ask(talk, path, "And then?")
        assert [text for text in contents(talk) if not text.startswith("Instead")] == ["And then?"]


async def test_what_was_deleted_is_stored_when_it_is_said_anew(talking: Callable[..., Any], write: Write) -> None:
    path = write(*first_turn(minutes=1))
    async with talking(project=HERE) as talk:
        await ask(talk, path, FIRST)
        for memory in talk.memories():
            talk.store.delete_memory(memory.id)
        await talk.prompt("s1", FIRST)
        await talk.hook("hook_answer", session_id="s1", last_assistant_message=ANSWER)
        await settled(talk)
        assert contents(talk) == [FIRST, ANSWER]


async def test_what_was_deleted_stays_gone_if_its_hook_is_sent_again(talking: Callable[..., Any]) -> None:
    """A relay does so if it had no answer, and an outbox if its process was killed."""
    heard = {"session_id": "s1", "heard_at": ago(seconds=5)}
    async with talking(project=HERE) as talk:
        for how in ("deleted", "sent again"):
            await talk.hook("hook_prompt", **heard, prompt=FIRST)
            await talk.hook("hook_answer", **heard, last_assistant_message=ANSWER)
            await settled(talk)
            assert contents(talk) == ([FIRST, ANSWER] if how == "deleted" else [])
            for memory in talk.memories():
                talk.store.delete_memory(memory.id)


async def test_what_was_said_long_before_the_server_started_is_not_stored(
    talking: Callable[..., Any], write: Write
) -> None:
    """It may have been said while nothing was to be stored."""
    path = write(*first_turn(hours=2))
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        assert contents(talk) == [NEXT]


@pytest.mark.parametrize(
    "name", ["another session", "another folder", "a link", "another project", "a long file", "no path", "no file"]
)
async def test_no_other_file_is_read(
    name: str, talking: Callable[..., Any], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a call says."""
    path: Path | str = write(*first_turn(minutes=1))
    assert isinstance(path, Path)
    match name:
        case "another session":
            path = path.rename(path.with_name("s2.jsonl"))
        case "another folder":
            path = path.rename(tmp_path / path.name)
        case "a link":
            path.symlink_to(path.rename(tmp_path / path.name))
        case "another project":
            path = write(user(FIRST, timestamp=ago(), cwd="/home/ann/site"))
        case "a long file":
            monkeypatch.setattr(importing, "MAX_BYTES", 100)
        case "no path":
            path = ""
        case "no file":
            path.unlink()
    async with talking(project=HERE) as talk:
        await ask(talk, path)
        assert contents(talk) == [NEXT]


@pytest.mark.parametrize("path", ["\0s1.jsonl", "../s1.jsonl", "~/s1.jsonl"])
async def test_an_odd_path_is_no_error(talking: Callable[..., Any], path: str) -> None:
    async with talking(project=HERE) as talk:
        assert await ask(talk, path) is None
        assert contents(talk) == [NEXT]


async def test_a_line_of_a_changed_format_is_logged_and_the_others_are_stored(
    talking: Callable[..., Any], write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(*first_turn(minutes=1), {**user(FIRST), "message": FIRST})
    async with talking(project=HERE) as talk:
        assert await ask(talk, path) is None
        assert contents(talk) == [FIRST, ANSWER, NEXT]
    [logged] = [one for one in caplog.records if one.name.startswith("vector_memory.server")]
    assert logged.levelno == logging.WARNING
    assert "Line 3" in logged.message
    assert FIRST not in logged.message


async def test_nothing_is_taken_from_a_transcript_if_capturing_is_off(
    talking: Callable[..., Any], write: Write
) -> None:
    async with talking(Settings(capture=False), HERE) as talk:
        await ask(talk, write(*first_turn(minutes=1)))
        assert not talk.memories()
