"""Hooks that run a command: what they hand to a running server, and what they keep without one."""

import asyncio
import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hook_texts import ANSWER as LONG
from hook_texts import PROMPT
from servers import Server
from vector_memory.cli.commands.hook import keep_in_outbox
from vector_memory.clients import hook
from vector_memory.clients.registry import CLIENTS
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.current_store import MEMORY
from vector_memory.server.hooks import listening
from vector_memory.settings import DatabaseLocation, Settings
from vector_memory.settings.locations import real_path
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.outbox import outbox_of_memory
from waiting import eventually, until

pytestmark = pytest.mark.sqlite("hooks find the server by the memory's file")

ANSWER = LONG.strip()

FILE = Path(hook.__file__)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hook with time, however busy the machine is."""
    text = FILE.read_text(encoding="utf-8")
    slow = tmp_path_factory.mktemp("hook") / "hook.py"
    slow.write_text(text.replace("SECONDS_OF_OTHERS = 2.0", "SECONDS_OF_OTHERS = 60.0").replace(": 0.1,", ": 60.0,"))
    assert slow.read_text().count("60.0") == 2
    return slow


def run(file: Path, event: str, folder: Path, *flags: str, client: str = "gemini", **fields: object) -> str:
    """Run a hook in a folder, as a client does; return what the client reads. It always succeeds, in silence."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, client, event, *flags],
        input=json.dumps(fields),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as server:
        server.hello()
        eventually(lambda: is_answered(server.path))
        yield server


def is_answered(memory: Path) -> bool:
    """Return whether a server listens for a memory."""
    return hook.answer_to(hook.socket_of(str(memory)), b"", time.monotonic() + 60) is None and accepts(memory)


def accepts(memory: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(hook.socket_of(str(memory))) == 0


def stored(server: Server) -> set[str]:
    asked = partial(server.call, "search_changes", full=True, limit=100)
    found = [asked(session_id=session)["results"] for session in ("one", "two", "outer", "inner")]
    return {one["content"] for some in found for one in some}


def named(server: Server) -> tuple[str, str]:
    return "--database-path", str(server.path)


def test_a_server_stores_what_a_hook_hands_over_and_tells_the_next_session_what_the_last_one_left(
    server: Server, patient: Path, tmp_path: Path
) -> None:
    assert not run(patient, "prompt", tmp_path, *named(server), session_id="one", prompt=PROMPT)
    assert not run(patient, "answer", tmp_path, *named(server), session_id="one", prompt_response=ANSWER)
    eventually(lambda: stored(server) == {PROMPT, ANSWER})
    told = json.loads(run(patient, "prompt", tmp_path, *named(server), session_id="two", prompt="And what is left?"))
    assert told["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    assert PROMPT in told["hookSpecificOutput"]["additionalContext"]
    assert not run(patient, "prompt", tmp_path, *named(server), session_id="two", prompt="Nothing else?")
    with SessionMemoryStore(server.path, embedder=ToyEngine(), read_only=True) as store:
        eventually(
            lambda: (
                [(told.client, told.recaps) for told in store.get_memory_stats().recalls]
                == [("gemini-cli-mcp-client", 1)]
            )
        )


def test_a_hook_that_has_not_waited_for_the_recap_gets_it_with_the_next_prompt(
    server: Server, patient: Path, tmp_path: Path
) -> None:
    run(patient, "prompt", tmp_path, *named(server), session_id="one", prompt=PROMPT)
    head = "\0".join(["gemini", "prompt", str(time.time_ns()), str(server.path), "named", str(tmp_path), ""]).encode()
    body = json.dumps({"session_id": "two", "prompt": "Where was I?"}).encode()
    with socket.socket(socket.AF_UNIX) as impatient:
        impatient.connect(hook.socket_of(str(server.path)))
        impatient.sendall(head + body)
    eventually(lambda: "Where was I?" in stored(server))
    eventually(
        lambda: run(patient, "prompt", tmp_path, *named(server), session_id="two", prompt=f"Go on {time.time()}")
    )


def test_without_a_server_a_text_waits_on_the_disk_without_its_secret_until_one_starts(tmp_path: Path) -> None:
    hidden = "hunter2hunter2"
    memory = tmp_path / "memory.db"
    flags = ("--database-path", str(memory))
    run(FILE, "answer", tmp_path, *flags, session_id="one", prompt_response=f"{ANSWER} password={hidden}")
    run(FILE, "prompt", tmp_path, *flags, session_id="one", prompt=f"{PROMPT} password={hidden}")
    outbox = memory.with_name("memory.db.outbox")
    eventually(lambda: len(list(outbox.glob("*.json"))) == 2)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and hidden.encode() in file.read_bytes()]
    with Server(tmp_path) as server:
        server.hello()
        eventually(lambda: len(stored(server)) == 2)


def test_a_secret_in_the_name_of_the_project_is_not_on_the_disk_either(tmp_path: Path) -> None:
    project, memory = tmp_path / "password=hunter2hunter2", tmp_path / "memory/memory.db"
    project.mkdir()
    run(FILE, "answer", project, "--database-path", str(memory), prompt_response=ANSWER)
    (kept,) = memory.with_name("memory.db.outbox").glob("*.json")
    assert "hunter2" not in kept.read_text()


def test_nothing_is_kept_if_capturing_is_off(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-I", "-S", FILE, "gemini", "answer", "--database-path", str(tmp_path / "memory.db")],
        input=json.dumps({"session_id": "one", "prompt_response": ANSWER}).encode(),
        env={"PATH": os.environ["PATH"], "VECTOR_MEMORY_CAPTURE": "false"},
        check=True,
    )
    assert not list(tmp_path.iterdir())


def test_another_server_listens_when_the_first_is_killed_and_a_removed_socket_comes_back(
    server: Server, patient: Path, tmp_path: Path
) -> None:
    with Server(tmp_path) as second:
        second.hello()
        assert not stored(second)
        server.process.kill()
        eventually(lambda: accepts(server.path))
        run(patient, "answer", tmp_path, *named(server), session_id="one", prompt_response=ANSWER)
        eventually(lambda: stored(second) == {ANSWER})
        Path(hook.socket_of(str(server.path))).unlink()
        eventually(lambda: accepts(server.path))


def test_a_project_in_the_folder_of_another_one_keeps_its_own_texts(tmp_path: Path, patient: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer/inner"
    for project in (outer, inner):
        (project / ".git").mkdir(parents=True)
        (project / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (inner / "src").mkdir()
    with Server(outer, start=COMMAND_IN_PROJECT) as server:
        server.hello()
        own = outer / hook.MEMORY
        eventually(lambda: accepts(own))
        (outer / "src").mkdir()
        run(patient, "answer", outer / "src", session_id="outer", prompt_response=ANSWER)
        run(patient, "answer", inner / "src", session_id="inner", prompt_response=f"Inside: {ANSWER}")
        eventually(lambda: stored(server) == {ANSWER})
    assert len(list((inner / hook.MEMORY).with_suffix(".db.outbox").glob("*.json"))) == 1


COMMAND_IN_PROJECT = (
    sys.executable,
    "-c",
    "import sys; sys.argv = ['vector-memory', 'serve']; from vector_memory.cli.main import main; main()",
)


@pytest.mark.anyio
async def test_only_this_user_can_use_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sockets"
    monkeypatch.setattr(hook, "FOLDER", str(folder))
    memory = tmp_path / "memory.db"

    async def handle(_message: bytes, _taken: Any) -> listening.Answer:
        return listening.Answer(b"heard", lambda: None)

    def asked() -> bytes | None:
        return hook.answer_to(hook.socket_of(str(memory)), b"?", time.monotonic() + 60)

    listener = asyncio.create_task(listening.listen_at_socket(memory, handle))
    try:
        await until(lambda: Path(hook.socket_of(str(memory))).exists())
        assert await asyncio.to_thread(asked) == b"heard"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Path(hook.socket_of(str(memory))).stat().st_mode & 0o777 == 0o600
        folder.chmod(0o755)
        assert await asyncio.to_thread(asked) is None
        await listening.listen_at_socket(tmp_path / "other.db", handle)  # ends at once
    finally:
        listener.cancel()


@pytest.mark.anyio
async def test_a_server_listens_again_whatever_is_removed_and_only_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "FOLDER", str(tmp_path / "sockets"))
    monkeypatch.setattr(listening, "SECONDS_BETWEEN_LOOKS", 0.01)
    path, answers = Path(hook.socket_of(str(tmp_path / "memory.db"))), list[bytes]()

    async def listener(name: bytes) -> None:
        async def handle(_message: bytes, _taken: Any) -> listening.Answer:
            return listening.Answer(name, lambda: None)

        await listening.listen_at_socket(tmp_path / "memory.db", handle)

    def ask() -> bool:
        heard = hook.answer_to(str(path), b"?", time.monotonic() + 60)
        answers.extend([] if heard is None else [heard])
        return heard is not None

    async def is_answered() -> None:
        for _ in range(1000):
            if await asyncio.to_thread(ask):
                return
            await asyncio.sleep(0.01)
        raise AssertionError

    listeners = [asyncio.create_task(listener(b"first"))]
    await is_answered()
    listeners.append(asyncio.create_task(listener(b"second")))
    await asyncio.sleep(0.1)
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(str(path))
    path.unlink()
    await is_answered()
    shutil.rmtree(path.parent)
    await is_answered()
    path.with_suffix(".lock").unlink()
    listeners.append(asyncio.create_task(listener(b"third")))
    await asyncio.sleep(0.3)
    await is_answered()
    inode = path.stat().st_ino
    for _ in range(30):
        await asyncio.sleep(0.01)
        assert path.stat().st_ino == inode
    for each in listeners:
        each.cancel()
    await asyncio.wait(listeners)
    assert not path.exists()
    silent.close()


@pytest.mark.anyio
async def test_who_says_nothing_is_not_listened_to_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "FOLDER", str(tmp_path / "sockets"))
    monkeypatch.setattr(listening, "SECONDS_TO_SPEAK", 0.1)
    path = Path(hook.socket_of(str(tmp_path / "memory.db")))

    async def handle(_message: bytes, _taken: Any) -> None:
        raise AssertionError

    listener = asyncio.create_task(listening.listen_at_socket(tmp_path / "memory.db", handle))
    await until(path.exists)
    reader, writer = await asyncio.open_unix_connection(path)
    assert await reader.read() == b""
    writer.close()
    listener.cancel()


def linked(main: Path, checkout: Path) -> Path:
    """Return a checkout that `git worktree add` made."""
    git = ("git", "-C", str(main), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "-b", "other", checkout], check=True)
    return checkout


@pytest.mark.parametrize(
    ("folder", "flags", "variables"),
    [
        ("shop", (), {}),
        ("shop/src/deep", (), {}),
        ("shop's $(checkout)", (), {}),
        ("shop's $(checkout)/src", (), {}),
        ("shop/no repository", (), {}),
        ("link", (), {}),
        ("with linked memory", (), {}),
        (".", (), {"CLAUDE_PROJECT_DIR": "~/shop/src"}),
        (".", (), {"VECTOR_MEMORY_DATABASE_PATH": "~/one.db"}),
        (".", ("--working-dir", "~/shop"), {}),
        (".", ("--working-dir", "shop"), {"VECTOR_MEMORY_DATABASE_PATH": "other.db"}),
        (".", ("--database-path", "shop/own.db"), {"VECTOR_MEMORY_WORKING_DIR": "other"}),
    ],
)
def test_a_hook_looks_for_the_memory_that_a_server_there_would_use(
    folder: str, flags: tuple[str, ...], variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop", "with linked memory"):
        subprocess.run(["git", "init", "-q", tmp_path / name], check=True)
    for made in ("shop/src/deep", "shop/no repository/.git", "elsewhere"):
        (tmp_path / made).mkdir(parents=True)
    (linked(tmp_path / "shop", tmp_path / "shop's $(checkout)") / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop/src")
    (tmp_path / "with linked memory/memory").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / folder)
    for name, value in {"HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    options = {
        name.removeprefix("--").replace("-", "_"): Path(value)
        for name, value in zip(flags[::2], flags[1::2], strict=True)
    }
    options |= {
        option: Path(value)
        for name, value in variables.items()
        if not flags and (option := name.removeprefix("VECTOR_MEMORY_").lower()) in ("database_path", "working_dir")
    }
    address = DatabaseLocation.model_validate(options).address()
    project = Path(variables.get("CLAUDE_PROJECT_DIR", Path.cwd())).expanduser()
    named = hook.named_memory([*flags])
    assert str(real_path(Path(str(address)))) in ([named] if named else hook.memories_above(str(project)))


@pytest.mark.parametrize("place", ["checkout", "with linked memory"])
def test_a_server_takes_what_happens_in_another_checkout_or_beside_a_linked_memory(
    place: str, patient: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", project], check=True)
    if place == "checkout":
        linked(project, tmp_path / place)
    else:
        (tmp_path / "elsewhere").mkdir()
        (project / "memory").symlink_to(tmp_path / "elsewhere")
        (tmp_path / place).symlink_to(project)
    with Server(project, start=COMMAND_IN_PROJECT) as server:
        server.hello()
        memory = (project / hook.MEMORY).resolve()
        eventually(lambda: accepts(memory))
        run(patient, "prompt", tmp_path / place, session_id="one", prompt=PROMPT)
        assert PROMPT in run(patient, "prompt", tmp_path / place, session_id="two", prompt="And what is left?")


def test_a_prompt_is_kept_even_if_the_client_ends_all_that_its_hook_has_started(tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", FILE, "gemini", "prompt", "--database-path", str(tmp_path / "memory.db")]
    for number in range(4):
        started = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        started.communicate(json.dumps({"session_id": "one", "prompt": f"{number}. {PROMPT}"}).encode())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    eventually(lambda: len(list((tmp_path / "memory.db.outbox").glob("*.json"))) == 4)


def test_nothing_of_the_answer_is_kept_once_the_prompt_that_forbids_it_is_handed_over(tmp_path: Path) -> None:
    memory = tmp_path / "memory.db"
    run(FILE, "prompt", tmp_path, "--database-path", str(memory), session_id="s", prompt="DO NOT remember this session")
    outbox = outbox_of_memory(memory)
    assert outbox
    assert outbox.leaves_out("s")


def test_a_session_that_starts_without_a_server_starts_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hook.py", "gemini", "start", "--database-path", str(tmp_path / "memory.db")])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"session_id": "one"}')))
    monkeypatch.setitem(hook.SECONDS, "start", 0.1)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("A process was started."))
    hook.hand_over()


def test_the_length_of_a_memorys_path_does_not_matter() -> None:
    assert len(hook.socket_of(f"/{'long/' * 500}memory.db")) < 100  # the system allows 103 at least
    assert hook.socket_of("/a/memory.db") != hook.socket_of("/b/memory.db")


def test_a_hook_imports_next_to_nothing(server: Server, tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", "-X", "importtime", FILE, "gemini", "answer", *named(server)]
    done = subprocess.run(words, input=b"{}", capture_output=True, check=True, cwd=tmp_path)
    imported = {line.split("|")[-1].strip() for line in done.stderr.decode().splitlines()}
    assert "zlib" in imported
    assert not imported & {"json", "re", "pathlib", "socket", "typing", "enum", "contextlib", "site"}


@pytest.mark.parametrize(
    ("client", "event", "data"),
    [
        ("gemini", "answer", b"{"),
        ("gemini", "answer", b"[]"),
        ("nobody", "prompt", b"{}"),
        ("gemini", "nothing", b"{}"),
    ],
)
def test_a_hook_fails_silently(client: str, event: str, data: bytes, tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", FILE, client, event, "--database-path", str(tmp_path / "none/memory.db")]
    done = subprocess.run(words, input=data, capture_output=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_what_hooks_have_reported_before_they_were_killed_is_kept(tmp_path: Path) -> None:
    ended = []
    for number in range(8):
        words = [sys.executable, "-I", "-S", FILE, "gemini", "answer", "--database-path", str(tmp_path / "memory.db")]
        started = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        text = f"{number}. {ANSWER}"
        assert started.stdin
        started.stdin.write(json.dumps({"session_id": "one", "prompt_response": text}).encode())
        started.stdin.close()
        try:
            started.wait(random.uniform(0, 2))
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
        if started.wait() == 0:
            ended.append(text)
    with Server(tmp_path) as server:
        server.hello()
        eventually(lambda: set(ended) <= stored(server))


HEARD = {
    "gemini": [
        (
            {"session_id": "s", "prompt": "<hook_context>Recap: all is well.</hook_context>\n\nGo on."},
            {"session_id": "s", "prompt": "\n\nGo on."},
        ),
        (
            {"session_id": "s", "prompt": "Go on.", "prompt_response": "It is done."},
            {"session_id": "s", "prompt": "Go on.", "last_assistant_message": "It is done."},
        ),
    ],
    "qwen": [
        ({"session_id": "s", "prompt_id": "s#0", "prompt": ""}, {"session_id": "s", "prompt": ""}),
        (
            {"session_id": "s", "last_assistant_message": "Done."},
            {"session_id": "s", "last_assistant_message": "Done."},
        ),
        (
            {"session_id": "s", "trigger": "manual", "compact_summary": "All is done."},
            {"session_id": "s", "compact_summary": "All is done."},
        ),
    ],
    "copilot": [
        ({"sessionId": "s", "prompt": "Go on."}, {"session_id": "s", "prompt": "Go on."}),
        (
            {"sessionId": "own", "prompt": "Look.", "parentAgentId": "s"},
            {"session_id": "own", "prompt": ""},
        ),
        (
            {"sessionId": "s", "response": "Done.", "agentType": "explore", "parentAgentId": "s"},
            {"session_id": "s", "prompt": "", "last_assistant_message": "Done.", "agent_type": "explore"},
        ),
    ],
    "grok": [
        (
            {"hookEventName": "stop", "session_id": "s", "lastAssistantMessage": "Done."},
            {"session_id": "s", "last_assistant_message": "Done."},
        ),
        ({"hookEventName": "stop", "session_id": "s", "reason": "shutdown"}, {"session_id": "s"}),
        (
            {"session_id": "own", "prompt": "Look.", "subagentType": "explore"},
            {"session_id": "own", "prompt": "", "agent_type": "explore"},
        ),
    ],
    "cline": [
        (
            {"sessionContext": {"rootSessionId": "s"}, "turn": {"outputText": "Done.", "status": "completed"}},
            {"session_id": "s", "last_assistant_message": "Done."},
        ),
        (
            {"sessionContext": {"rootSessionId": "s"}, "userPromptSubmit": {"prompt": "Go on.", "attachments": []}},
            {"session_id": "s", "prompt": "Go on."},
        ),
    ],
    "opencode": [({"session_id": "s", "prompt": '"Go on."'}, {"session_id": "s", "prompt": "Go on."})],
    "kilo": [({"session_id": "s", "prompt": "Go on."}, {"session_id": "s", "prompt": "Go on."})],
}
"""What clients report, as the pinned ones write it, and what is read of it."""


@pytest.mark.parametrize("name", HEARD)
def test_what_each_client_reports_is_understood(name: str) -> None:
    hooks = CLIENTS[name].command_hooks
    assert hooks
    assert [hooks.given(reported) for reported, _ in HEARD[name]] == [expected for _, expected in HEARD[name]]


def message(client: str, event: str, memory: Path, folder: Path, data: bytes) -> bytes:
    head = [client, event, str(time.time_ns()), str(memory), "named", str(folder), ""]
    return os.fsencode("\0".join(head)) + data


@pytest.mark.anyio
async def test_a_server_takes_what_is_of_its_memory_and_can_be_read(
    store: SessionMemoryStore, path: Path, tmp_path: Path
) -> None:
    handle, taken = listening.handler(path, {MEMORY: store}), list[bool]()

    async def told(session_id: str, prompt: str) -> str:
        body = json.dumps({"session_id": session_id, "prompt": prompt}).encode()
        answer = await handle(message("qwen", "prompt", path, tmp_path, body), lambda: taken.append(True))
        assert answer
        return answer.text.decode()

    assert not await told("one", PROMPT)
    assert taken
    assert PROMPT in await told("two", "And what is left?")
    prompt = json.dumps({"session_id": "s", "prompt": PROMPT}).encode()
    for other in (
        message("qwen", "prompt", tmp_path / "other.db", tmp_path, prompt),
        message("nobody", "prompt", path, tmp_path, prompt),
        message("qwen", "start", path, tmp_path, prompt),
        message("qwen", "prompt", path, tmp_path, b"{"),
        b"garbage",
    ):
        assert await handle(other, lambda: taken.append(True)) is None


@pytest.mark.parametrize(
    ("event", "kept"), [("prompt", [PROMPT]), ("answer", [ANSWER]), ("subagent", []), ("start", [])]
)
def test_what_waits_for_a_server_is_what_one_would_store(event: str, kept: list[str], path: Path) -> None:
    data = json.dumps({"session_id": "s", "prompt": PROMPT, "last_assistant_message": ANSWER}).encode()
    keep_in_outbox("qwen", event, time.time_ns(), data, path, Settings())
    outbox = outbox_of_memory(path)
    assert outbox
    assert [waiting.body["content"] for waiting in outbox.waiting()] == kept
    keep_in_outbox("qwen", event, time.time_ns(), data, path, Settings(capture=False))
    assert len(outbox.paths()) == len(kept)


def test_what_a_user_says_to_the_memory_is_heeded_without_a_server_too(path: Path) -> None:
    for session, prompt in (
        ("s", "/remember Rack 7 has no fan."),
        ("s", "Do not remember this session."),
        ("s", PROMPT),
        ("other", PROMPT),
    ):
        data = json.dumps({"session_id": session, "prompt": prompt}).encode()
        keep_in_outbox("qwen", "prompt", time.time_ns(), data, path, Settings())
    outbox = outbox_of_memory(path)
    assert outbox
    kept = [(one.body["memory_type"], one.body["session_id"], one.body["content"]) for one in outbox.waiting()]
    assert kept == [("report", "s", "Rack 7 has no fan."), ("input_prompt", "other", PROMPT)]
