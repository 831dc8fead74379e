"""The real clients, each of a user with an empty home and an empty project, and with a scripted model."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from from_npm import folder, installed
from other_clients.scripted import Call, Messages, Model
from real_client.claude_code import ALONE
from real_client.scripted_model import CODEX, CODEX_WAITS

CHAT = """{{
  "model": "s/scripted", "small_model": "s/scripted", "autoupdate": false, "share": "disabled", "provider": {{"s": {{
  "npm": "@ai-sdk/openai-compatible", "options": {{"baseURL": "{url}/v1", "apiKey": "none"}},
  "models": {{"scripted": {{"tool_call": true, "limit": {{"context": 200000, "output": 1000}}}}}}}}}}
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
    """How a client is started with a prompt. `prefix`: how it begins the names of our tools.

    `folder`: of tests, which names its package, if that is not its own. `runs`: the tool that runs a command, and
    where that is in its arguments.
    """

    words: tuple[str, ...]
    prefix: str
    command: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    finds: bool = False
    folder: str = ""
    runs: tuple[str, str] = ("bash", "command")


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
        runs=("run_shell_command", "command"),
    ),
    "qwen": Driven(
        ("--auth-type", "openai", "--yolo", "-p"),
        "mcp__vector-memory__",
        variables={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"},
        finds=True,
        runs=("run_shell_command", "command"),
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
        runs=("run_commands", "commands"),
    ),
    "continue": Driven(
        ("--auto", "-p"),
        "",
        command="cn",
        variables={"CONTINUE_TELEMETRY_ENABLED": "0"},
        files={".continue/config.yaml": CONTINUE},
        runs=("Bash", "command"),
    ),
    "grok": Driven(
        ("--always-approve", "-p"),
        "vector-memory__",
        files={".grok/config.toml": GROK},
        finds=True,
        runs=("run_terminal_command", "command"),
    ),
}


WITH_TOOLS_OF_HOOKS = {
    "claude": Driven(
        ("--permission-mode", "bypassPermissions", "-p"),
        "mcp__vector-memory__",
        variables=ALONE | {"ANTHROPIC_BASE_URL": "{url}", "IS_SANDBOX": "1"},
        folder="real_client",
        runs=("Bash", "command"),
    ),
    "codex": Driven(
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", *CODEX_WAITS),
        "",
        files={".codex/config.toml": CODEX},
        folder="real_client",
        runs=("exec_command", "cmd"),
    ),
}


def call_of_ours(name: str, messages: Messages, tool: str, arguments: Mapping[str, Any]) -> Call:
    """Return the call of a tool of ours. If the client does not list them, it is looked for until it is there."""
    full = ALL[name].prefix + tool
    if name == "qwen":
        return Call("tool_call", {"name": full, "arguments": dict(arguments)})
    if name != "grok":
        return Call(full, arguments)
    last = str(messages[-1]["content"])
    if '"results": []' in last:  # it halts who searches in a loop
        return in_shell(name, "sleep 1", f"Wait {len(messages)}")
    if full not in last:
        return Call("search_tool", {"query": f"{full} {len(messages)}".replace("_", " ")})
    return Call("use_tool", {"tool_name": full, "tool_input": dict(arguments)})


def in_shell(name: str, command: str, description: str) -> Call:
    """Return the call of a client's own tool that runs a command."""
    tool, place = ALL[name].runs
    return Call(tool, {place: [command] if place == "commands" else command, "description": description})


ALL = DRIVEN | WITH_TOOLS_OF_HOOKS


def folder_of(name: str) -> str:
    """Return the folder of tests that names the package of a client."""
    return ALL[name].folder or f"other_clients/{name}"


def command_of(name: str) -> Path:
    """Return the command of a client. Raises NotInstalledError."""
    command = installed(folder_of(name), ALL[name].command or name)
    if command is None:
        raise NotInstalledError(f"{name} is not installed: uv run python tests/from_npm.py {folder_of(name)}")
    return command


class NotInstalledError(Exception):
    """A client is not on this machine."""


class User:
    """Somebody with an empty home and an empty project."""

    def __init__(self, name: str, scratch: Path, model: Model) -> None:
        self.driven, self.name, self.url = ALL[name], name, model.url
        self.command, self.home, self.project = command_of(name), scratch / "home", scratch / "project"
        for place in (self.home, self.project):
            place.mkdir(exist_ok=True)
        for file, text in self.driven.files.items():
            (self.home / file).parent.mkdir(parents=True, exist_ok=True)
            (self.home / file).write_text(text.format(url=self.url), encoding="utf-8")
        if self.driven.first:
            self.run(self.command, *self.driven.first)

    def run(self, *words: str | Path) -> str:
        own = {key: text.format(url=self.url) for key, text in self.driven.variables.items()}
        path = f"{folder(folder_of(self.name)) / 'bin'}:{os.environ['PATH']}"
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
