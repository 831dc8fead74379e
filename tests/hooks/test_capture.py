"""What hooks store: what one has taken is on the disk before anything can fail, and stored once it can be."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from eras import ERAS
from faults.bad_disk import BROKEN, FULL, Codes, bad_disk
from hook_texts import ANSWER, PROMPT, REPORT
from memory_files import locked
from vector_memory.clients.events import HOOKS
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.reading.recap import Past
from vector_memory.server.hooks import capture
from vector_memory.server.jsonrpc import HOOK
from vector_memory.settings import Redact, ServerOptions, Settings
from vector_memory.storage import write_lock
from vector_memory.storage.sqlite import database
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import outbox as delivery
from vector_memory.writing.batches import Intake
from vector_memory.writing.outbox import Outbox, outbox_of_memory
from vector_memory.writing.writer import MemoryWriter
from waiting import until

pytestmark = pytest.mark.anyio

IGNORED: dict[str, tuple[str, dict[str, object]]] = {
    "report of a background agent": ("hook_prompt", {"prompt": "<task-notification>done</task-notification>"}),
    "output of a local command": ("hook_prompt", {"prompt": "<local-command-stdout>x</local-command-stdout>"}),
    "command in tags": ("hook_prompt", {"prompt": "<command-name>/model</command-name>"}),
    "shell input": ("hook_prompt", {"prompt": "<bash-input>ls</bash-input>"}),
    "interruption": ("hook_prompt", {"prompt": "[Request interrupted by user for tool use]"}),
    "slash command": ("hook_prompt", {"prompt": "/compact keep the plan"}),
    "slash command of a plugin": ("hook_prompt", {"prompt": "/vector-memory:recall locks"}),
    "task of a sub-agent": ("hook_prompt", {"prompt": PROMPT, "transcript_path": "/x/rollout-2026-t.jsonl"}),
    "white space": ("hook_prompt", {"prompt": " \n"}),
    "no prompt": ("hook_prompt", {}),
    "null": ("hook_prompt", {"prompt": None}),
    "not a text": ("hook_prompt", {"prompt": {"a": 1}}),
    "compaction, which ends like a sub-agent": ("hook_subagent", {"agent_type": "", "last_assistant_message": REPORT}),
    "short report": ("hook_subagent", {"agent_type": "explorer", "last_assistant_message": "Done."}),
    "short answer": ("hook_answer", {"last_assistant_message": "Done: all tests pass."}),
    "empty summary": ("hook_compaction", {"compact_summary": "<analysis>Let me think.</analysis>"}),
}


@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_the_tools_can_be_called_and_are_in_no_list(talking: Callable[..., Any], era: str) -> None:
    async with talking(era=era) as talk:
        assert await talk.prompt("s", PROMPT) is None
        assert len(talk.memories()) == 1
        assert not set(HOOKS) & await talk.listed()


async def test_each_event_is_stored_as_what_it_is(talk: Any) -> None:
    await talk.prompt("s", PROMPT)
    await talk.hook("hook_subagent", session_id="s", agent_type="explorer", last_assistant_message=REPORT)
    await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
    summary = "<analysis>Let me think.</analysis>\n\n<summary>\nThe lock is gone.\n</summary>"
    await talk.hook("hook_compaction", session_id="s", compact_summary=summary)
    assert [(one.memory_type, one.agent_id, one.content) for one in talk.memories()] == [
        ("input_prompt", "main-orchestrator", PROMPT),
        ("report", "explorer", REPORT),
        ("working_memory", "fastmcp", ANSWER.strip()),
        ("session_context", "main-orchestrator", "The lock is gone."),
    ]
    assert {one.session_id for one in talk.memories()} == {"s"}
    assert [one.metadata for one in talk.memories()] == [{"project": "/work/shop"}] * 4


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ({"prompt": PROMPT, "transcript_path": "/x/rollout-2026-11-25-s.jsonl"}, PROMPT),
        ({"prompt": "/src/app.py fails to start"}, "/src/app.py fails to start"),
        ({"prompt": "Is \0 a character?"}, "Is \ufffd a character?"),
        ({"prompt": "x" * 500_001}, "x" * 500_000),
    ],
    ids=["in Codex", "that begins with a path", "with the character NUL", "too long"],
)
async def test_a_prompt_is_stored(talk: Any, said: dict[str, str], stored: str) -> None:
    await talk.hook("hook_prompt", session_id="s", **said)
    await until(talk.memories)
    [memory] = talk.memories()
    assert stored.startswith(memory.content)
    assert memory.content_length == len(stored)


@pytest.mark.parametrize("name", IGNORED)
async def test_text_that_was_never_said_is_not_stored(talk: Any, name: str) -> None:
    tool, fields = IGNORED[name]
    assert await talk.hook(tool, session_id="s", **fields) is None
    assert not talk.memories()


async def test_the_same_words_again_are_another_prompt_and_the_same_answer(
    talk: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "vector_memory"):
        for _ in range(2):
            assert await talk.prompt("s", "continue") is None
            await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
    assert sorted(one.content for one in talk.memories()) == [ANSWER.strip(), "continue", "continue"]
    assert not [
        record for record in caplog.records if record.name.startswith(("vector_memory.server", "vector_memory.writing"))
    ]


async def test_without_a_session_the_project_and_the_day_name_it(talk: Any) -> None:
    await talk.hook("hook_prompt", session_id="", prompt=PROMPT)
    [memory] = talk.memories()
    assert memory.session_id == f"shop-{memory.created_at[:10]}"


@pytest.mark.sqlite("reads the file")
@pytest.mark.parametrize("redact", Redact)
async def test_private_parts_are_in_no_byte_of_the_file(
    talking: Callable[..., Any], redact: Redact, tmp_path: Path
) -> None:
    async with talking(Settings(redact=redact)) as talk:
        await talk.prompt("s", "Log in with <private>hunter2</private> and look.")
        await talk.hook(
            "hook_subagent",
            session_id="s",
            agent_type="a",
            last_assistant_message=f"{REPORT} <private>hunter2</private>",
        )
    found = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"and look" in found
    assert (b"hunter2" in found) == (redact is Redact.OFF)


@pytest.mark.parametrize("redact", Redact)
async def test_what_an_agent_stores_is_redacted_only_if_all_is(talking: Callable[..., Any], redact: Redact) -> None:
    async with talking(Settings(redact=redact)) as talk:
        stored = await talk.call(
            "store_report", content="Use <private>hunter2</private>.", title="<private>hunter</private>"
        )
        [memory] = talk.memories()
    is_redacted = redact is Redact.ALL
    assert stored.get("redacted") == (2 if is_redacted else None)
    assert ("hunter2" not in memory.content) == ("hunter" not in memory.title) == is_redacted


async def test_nothing_is_stored_if_capturing_is_off(talking: Callable[..., Any]) -> None:
    async with talking(Settings(capture=False)) as talk:
        await talk.prompt("s", PROMPT)
        await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
        assert not talk.memories()


async def test_a_read_only_server_stores_nothing_and_says_nothing_of_it(
    talking: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with talking() as talk:
        await talk.prompt("s", PROMPT)
    async with talking(offer=ServerOptions(read_only=True)) as talk:
        assert "the orders table" in await talk.prompt("t", "Go on with the deployment.")
        assert len(talk.memories()) == 1
    assert not [record for record in caplog.records if record.name.startswith("vector_memory.server")]


@pytest.mark.parametrize("toolsets", ["files", "tagged"])
async def test_a_server_without_session_tools_answers_nothing(talking: Callable[..., Any], toolsets: str) -> None:
    async with talking(offer=ServerOptions(toolsets=toolsets)) as talk:
        assert await talk.prompt("s", PROMPT) is None
        assert not talk.memories()


@pytest.mark.parametrize("failing", [(MemoryWriter, "store"), (Past, "latest_in"), (Past, "recap")])
async def test_a_failure_is_logged_without_content_and_not_shown(
    talk: Any, failing: tuple[type, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(*failing, Mock(side_effect=RuntimeError(PROMPT)))
    assert await talk.prompt("s", PROMPT) is None
    await until(lambda: "vector_memory" in str({record.name for record in caplog.records}))  # a moment after the answer
    assert [record.levelname for record in caplog.records if record.name.startswith("vector_memory")] == ["WARNING"]
    assert PROMPT not in caplog.text


@pytest.mark.sqlite("holds the lock of the file")
async def test_a_prompt_does_not_wait_for_the_write_lock_and_is_stored_later(
    talk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.prompt("s", PROMPT)
    monkeypatch.undo()
    with locked(tmp_path / "memory.db"):
        assert await talk.prompt("s", "Another prompt, while somebody writes.") is None
        assert len(talk.memories()) == 1
    await until(lambda: len(talk.memories()) == 2)


async def test_no_hook_waits_for_the_model(talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.store.defer_vectors()
    monkeypatch.setattr(EmbeddingModel, "is_ready", False)
    release = Event()

    def loading(*_: object) -> None:
        release.wait()
        raise EmbeddingUnavailableError("It was never loaded.")

    monkeypatch.setattr(EmbeddingModel, "_loaded", loading)
    try:
        await talk.prompt("s", PROMPT)
        await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
        assert [one.memory_type for one in talk.memories()] == ["input_prompt", "working_memory"]
    finally:
        release.set()


NEXT = "And what about the index of the orders table?"


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    """What waits beside the memory."""
    return outbox_of_memory(tmp_path / "memory.db")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores give up early, and be tried again soon."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(write_lock, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "SECONDS_BETWEEN_ATTEMPTS", 0.05)


def kept(outbox: Outbox) -> list[str]:
    return [waiting.body["content"] for waiting in outbox.waiting()]


async def stored(talk: Any, *texts: str) -> None:
    """Wait until these are the memories."""
    await until(lambda: [one.content for one in talk.memories()] == list(texts))


async def store_one(talk: Any, outbox: Outbox) -> None:
    """Store a prompt, however often that has to be tried."""
    await talk.prompt("s", PROMPT)
    await stored(talk, PROMPT)
    await until(outbox.is_empty)


def test_the_server_knows_the_calls_of_hooks_by_their_names() -> None:
    assert all(name.startswith(HOOK) for name in HOOKS)


@pytest.mark.sqlite("holds the lock of the file")
@pytest.mark.usefixtures("impatient")
async def test_a_prompt_is_stored_though_the_file_is_locked_for_longer_than_a_store_waits(
    talk: Any, tmp_path: Path, outbox: Outbox
) -> None:
    await store_one(talk, outbox)
    with locked(tmp_path / "memory.db"):
        assert await talk.prompt("s", NEXT) is None
        await until(lambda: "kept the database locked" in outbox.contents().problem)
        assert kept(outbox) == [NEXT]
    await stored(talk, PROMPT, NEXT)
    await until(outbox.is_empty)


@pytest.mark.sqlite("the disk is that of a file")
@pytest.mark.parametrize("codes", [FULL, BROKEN], ids=["full", "broken"])
@pytest.mark.usefixtures("impatient")
async def test_what_is_taken_while_the_disk_fails_is_stored_when_it_works_again(
    talking: Callable[..., Any], outbox: Outbox, codes: Codes
) -> None:
    with bad_disk() as disk:
        async with talking() as talk:
            await store_one(talk, outbox)
            disk.fail(codes, 1, lasting=True)
            await talk.prompt("s", NEXT)
            await talk.hook("hook_subagent", session_id="s", agent_type="a", last_assistant_message=REPORT)
            await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
            assert kept(outbox) == [NEXT, REPORT, ANSWER.strip()]
            disk.heal()
            # In any order: after five attempts, which may have failed meanwhile, others do not wait for a text.
            wanted = {PROMPT, NEXT, REPORT, ANSWER.strip()}
            await until(lambda: {one.content for one in talk.memories()} == wanted)


async def test_a_memory_that_cannot_be_read_keeps_no_text_from_being_kept(
    talk: Any, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "READING_SECONDS", 0.01)
    release, began = Event(), Event()

    def hang(*_: object) -> None:
        began.set()
        release.wait()

    monkeypatch.setattr(Past, "latest_in", hang)
    monkeypatch.setattr(MemoryWriter, "store", Mock(side_effect=DatabaseError("The database cannot be reached.")))
    try:
        assert await talk.prompt("s", PROMPT) is None
        await until(began.is_set)
        assert kept(outbox) == [PROMPT]
    finally:
        release.set()


@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_a_text_that_the_disk_does_not_take_is_lost_with_an_error_and_not_shown(
    talking: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, era: str
) -> None:
    monkeypatch.setattr(Outbox, "add", Mock(side_effect=DatabaseError("The disk is full.")))
    async with talking(era=era) as talk:
        answer = await talk.client.call_tool("hook_prompt", {"session_id": "s", "prompt": PROMPT})
        assert (answer.content[0].text, answer.is_error) == ("{}", False)
        assert answer.meta["vector-memory/failed"] == "DatabaseError"
    assert "A hook's text is lost: The disk is full." in caplog.text
    assert PROMPT not in caplog.text


async def test_a_first_prompt_that_is_stored_before_the_session_is_looked_up_is_told_the_recap_too(
    talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may store what was taken."""
    await talk.prompt("one", PROMPT)
    take = Intake.take

    def take_and_store(intake: Intake, *what: Any, **fields: Any) -> Any:
        taken = take(intake, *what, **fields)
        taken.result(60)
        return taken

    monkeypatch.setattr(Intake, "take", take_and_store)
    assert PROMPT in await talk.prompt("two", NEXT)


async def test_a_text_keeps_the_time_at_which_it_was_said(talk: Any, outbox: Outbox) -> None:
    said = "2026-01-31T12:00:00.000000+00:00"
    outbox.add({"memory_type": "input_prompt", "content": PROMPT, "session_id": "s", "created_at": said})
    await talk.prompt("s", NEXT)
    await stored(talk, PROMPT, NEXT)
    assert talk.memories()[0].created_at == "2026-01-31T12:00:00Z"


async def test_a_duplicate_is_confirmed(talk: Any, outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    """A prompt that is taken again has the time of the first attempt."""
    said = "2026-01-31T12:00:00.000000+00:00"
    with caplog.at_level(logging.INFO, "vector_memory"):
        for _ in range(2):
            outbox.add({"memory_type": "input_prompt", "content": PROMPT, "session_id": "s", "created_at": said})
        await talk.prompt("s", NEXT)
        await until(outbox.is_empty)
    await stored(talk, PROMPT, NEXT)
    assert not outbox.refused()
    ours = ("vector_memory.server", "vector_memory.writing")
    assert not [record for record in caplog.records if record.name.startswith(ours)]


async def test_a_file_that_holds_no_memory_is_set_aside(talk: Any, outbox: Outbox) -> None:
    for body in ({}, {"memory_type": "report"}, {"memory_type": "x", "content": "y"}, {"content": 1, "other": 2}):
        outbox.add(body)
    await talk.prompt("s", PROMPT)
    await stored(talk, PROMPT)
    await until(outbox.is_empty)
    assert len(outbox.refused()) == 4


async def test_a_read_only_store_leaves_what_waits_to_others(
    tmp_path: Path, talking: Callable[..., Any], outbox: Outbox
) -> None:
    async with talking() as talk:
        await talk.prompt("s", PROMPT)
    outbox.add({"memory_type": "input_prompt", "content": NEXT, "session_id": "s"})
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy"), read_only=True) as store:
        store.start_background_work()
        assert not store.is_busy
        assert kept(outbox) == [NEXT]


async def test_what_waits_holds_no_secret_and_only_its_owner_can_read_it(
    talk: Any, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryWriter, "store", Mock(side_effect=DatabaseError("The disk is full.")))
    await talk.prompt("s", f"{PROMPT} <private>hunter2</private>")
    [path] = outbox.paths()
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["content"] == f"{PROMPT} [redacted: private]"


@pytest.mark.parametrize("words", ["/remember Rack 7 has no fan.", "Remember:  Rack 7 has no fan.\n"])
async def test_what_a_user_asks_to_remember_is_a_report_of_the_users_at_once_and_the_agent_is_told(
    talk: Any, words: str
) -> None:
    assert await talk.prompt("s", words) == capture.REMEMBERED
    assert [(one.memory_type, one.agent_id, one.content) for one in talk.memories()] == [
        ("report", "user", "Rack 7 has no fan.")
    ]


@pytest.mark.parametrize("words", ["Do not remember this session.", "don\u2019t remember this session"])
async def test_after_these_words_nothing_more_of_the_session_is_stored_unasked_even_by_another_server(
    talking: Callable[..., Any], words: str
) -> None:
    async with talking() as talk:
        await talk.prompt("s", PROMPT)
        told = await talk.prompt("s", words)
        assert "vector-memory delete --session s" in told
        assert "\n" not in told
        await talk.hook("hook_answer", session_id="s", last_assistant_message=ANSWER)
    async with talking() as talk:
        await talk.prompt("s", "And what is left?")
        await talk.hook("hook_subagent", session_id="s", agent_type="explorer", last_assistant_message=REPORT)
        await talk.hook("hook_compaction", session_id="s", compact_summary="The lock is gone.")
        await talk.prompt("s", "remember: Rack 7 has no fan.")
        await talk.prompt("t", "Another session?")
        assert [one.content for one in talk.memories()] == [PROMPT, "Rack 7 has no fan.", "Another session?"]


@pytest.mark.parametrize(
    "prompt",
    [
        "What does `/remember TEXT` do?",
        '"do not remember this session"',
        "Do not remember this session, it says. Why?",
        "Write in the manual: do not remember this session.",
        "> remember: the fan",
        "Remember: use tabs.\nNow write the parser.",
    ],
)
async def test_words_for_the_memory_within_a_longer_prompt_do_nothing(talk: Any, prompt: str) -> None:
    assert await talk.prompt("s", prompt) is None
    await talk.prompt("s", PROMPT)
    assert [(one.memory_type, one.content) for one in talk.memories()] == [
        ("input_prompt", prompt),
        ("input_prompt", PROMPT),
    ]
