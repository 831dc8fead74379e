"""install, a search, a store and import-sessions with the real clients, each against a scripted model."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from from_npm import folder, installed
from other_clients.scripted import Call, Messages, Model, Turn
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
CALLS = [Call("store_report", REPORT), Call("search_reports_specific_chunks", {"query": "Where is the spare fan?"})]

CHAT = """{{
  "model": "s/scripted", "small_model": "s/scripted", "autoupdate": false, "share": "disabled", "provider": {{"s": {{
  "npm": "@ai-sdk/openai-compatible", "options": {{"baseURL": "{url}/v1", "apiKey": "none"}},
  "models": {{"scripted": {{"tool_call": true}}}}}}}}
}}
"""
CONTINUE = """name: Local # mine
version: 1.0.0
schema: v1
models:
  - {{name: scripted, provider: openai, model: scripted, apiBase: "{url}/v1", apiKey: none, roles: [chat],
     capabilities: [tool_use]}}
"""
GROK = """[models]
default = "scripted"
[model.scripted]
model = "scripted"
name = "scripted"
base_url = "{url}/v1"
api_key = "none"
"""


@dataclass(frozen=True)
class Driven:
    """How a client is started with a prompt. `prefix`: how it begins the names of our tools."""

    words: tuple[str, ...]
    prefix: str
    command: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    finds: bool = False


DRIVEN = {
    "gemini": Driven(
        ("-m", "gemini-2.5-flash", "--yolo", "-p"),
        "mcp_vector-memory_",
        variables={
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files={".gemini/settings.json": '{{"security": {{"auth": {{"selectedType": "gemini-api-key"}}}}}}\n'},
        flags=("--trust",),
    ),
    "qwen": Driven(
        ("--auth-type", "openai", "--yolo", "-p"),
        "mcp__vector-memory__",
        variables={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"},
        finds=True,
    ),
    "copilot": Driven(
        ("--allow-all-tools", "-p"),
        "vector-memory-",
        variables={
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_MODEL": "scripted",
        },
    ),
    "opencode": Driven(("run",), "vector-memory_", files={".config/opencode/opencode.json": CHAT}),
    "kilo": Driven(("run",), "vector-memory_", files={".config/kilo/kilo.json": CHAT}),
    "cline": Driven(
        (),
        "vector-memory__",
        first=("auth", "-p", "openai-compatible", "-b", "{url}/v1", "-k", "none", "-m", "scripted"),
    ),
    "continue": Driven(
        ("--auto", "-p"),
        "",
        command="cn",
        variables={"CONTINUE_TELEMETRY_ENABLED": "0"},
        files={".continue/config.yaml": CONTINUE},
    ),
    "grok": Driven(("--always-approve", "-p"), "vector-memory__", files={".grok/config.toml": GROK}, finds=True),
}


def found_first(name: str, prefix: str) -> Turn:
    """Return the calls of tools that the client does not list: one is looked for until the server is connected."""

    def turn(messages: Messages) -> Call | str:
        if REPORT["content"] in told_in(messages):
            return STORED
        call = CALLS["Stored report" in told_in(messages)]
        if name == "qwen":
            return Call("tool_call", {"name": f"{prefix}{call.tool}", "arguments": call.arguments})
        if '"results": []' in str(messages[-1]["content"]):  # it halts who searches in a loop
            return Call("run_terminal_command", {"command": "sleep 1", "description": f"Wait {len(messages)}"})
        if f"vector-memory__{call.tool}" not in told_in(messages):
            return Call("search_tool", {"query": f"vector-memory {call.tool} {len(messages)}"})
        return Call("use_tool", {"tool_name": f"{prefix}{call.tool}", "tool_input": call.arguments})

    return turn


def told_in(messages: Messages) -> str:
    """Return what the model was told, without what it said itself."""
    return json.dumps([one for one in messages if one["role"] not in {"assistant", "model"}])


class User:
    """Somebody with an empty home and an empty project."""

    def __init__(self, name: str, scratch: Path, model: Model) -> None:
        self.driven, self.name, self.url = DRIVEN[name], name, model.url
        command = installed(f"other_clients/{name}", self.driven.command or name)
        if command is None:
            pytest.skip(f"{name} is not installed: uv run python tests/from_npm.py other_clients/{name}")
        self.command, self.home, self.project = command, scratch / "home", scratch / "project"
        for place in (self.home, self.project):
            place.mkdir()
        for file, text in self.driven.files.items():
            (self.home / file).parent.mkdir(parents=True)
            (self.home / file).write_text(text.format(url=self.url), encoding="utf-8")
        if self.driven.first:
            self.run(self.command, *self.driven.first)

    def run(self, *words: str | Path) -> str:
        own = {key: text.format(url=self.url) for key, text in self.driven.variables.items()}
        path = f"{folder(f'other_clients/{self.name}') / 'bin'}:{os.environ['PATH']}"
        env = {"HOME": str(self.home), "TMPDIR": str(self.home), "PATH": path, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}
        done = subprocess.run(
            [str(word).format(url=self.url) for word in words],
            env=env | own,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, prompt: str) -> None:
        self.run(self.command, *self.driven.words, prompt)

    def ours(self, *words: str) -> str:
        return self.run(sys.executable, "-P", "-m", "vector_memory", *words)

    def configuration(self) -> dict[str, str]:
        return {
            str(path): path.read_text(encoding="utf-8")
            for path in self.home.rglob("*")
            if path.suffix in {".json", ".jsonc", ".yaml", ".toml"} and path.stat().st_size < 1_000_000
        }


def reported_in(store: SessionMemoryStore) -> set[str]:
    """Return the prompts and answers in a memory."""
    kinds = ("input_prompt", "working_memory")
    return {one.content for kind in kinds for one in store.search_scoped(Scope(kind)).results}


@pytest.fixture
def model() -> Iterator[Model]:
    with Model({}) as playing:
        yield playing


@pytest.mark.parametrize("name", DRIVEN)
def test_a_client_offers_the_tools_after_install_and_calls_them_and_its_sessions_can_be_imported(
    name: str, tmp_path: Path, model: Model
) -> None:
    user, driven = User(name, tmp_path, model), DRIVEN[name]
    store = found_first(name, driven.prefix) if driven.finds else [*CALLS, STORED]
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
    user = User("copilot", tmp_path, model)
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
