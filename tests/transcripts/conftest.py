"""The homes of clients with transcripts of real sessions, shortened: tests/data/transcripts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHOP = "/home/ann/shop"
"""The project that the transcripts are about."""

LONG = "The import fails because the disk is full: the job writes its temporary files to the root partition. " * 3

HOMES = {
    "CLAUDE_CONFIG_DIR": "claude",
    "CODEX_HOME": "codex",
    "GEMINI_CLI_HOME": "gemini",
    "QWEN_HOME": "qwen",
    "COPILOT_HOME": "copilot",
    "XDG_DATA_HOME": "data",
    "CLINE_DIR": "cline",
    "CONTINUE_GLOBAL_DIR": "continue",
    "GROK_HOME": "grok",
}
"""The variable that names the home of each client; opencode and Kilo have the same."""

Write = Callable[..., Path]


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the homes of all clients, which the environment names."""
    folder = tmp_path / "homes"
    shutil.copytree(Path(__file__).parents[1] / "data/transcripts", folder)
    for variable, name in HOMES.items():
        monkeypatch.setenv(variable, str(folder / name))
    return folder


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return what writes a transcript of Claude Code, line by line, into a home without any other."""
    home = tmp_path / "home"
    for variable, name in HOMES.items():
        monkeypatch.setenv(variable, str(home / name))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))

    def written(*lines: dict[str, Any] | str, name: str = "s1.jsonl", ending: str = "\n") -> Path:
        path = home / "projects/-home-ann-shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + ending)
        return path

    return written


def user(content: object, second: int = 0, **more: object) -> dict[str, Any]:
    """Return a line of the user."""
    return line("user", {"role": "user", "content": content}, second) | more


def agent(text: str, second: int = 1, stop: str | None = "end_turn", **more: object) -> dict[str, Any]:
    """Return a line of the agent with a text."""
    content = [{"type": "text", "text": text}]
    return line("assistant", {"id": f"m{second}", "stop_reason": stop, "content": content}, second) | more


def tool_call(second: int = 1) -> dict[str, Any]:
    """Return a line of the agent that calls a tool."""
    content = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    return line("assistant", {"id": f"m{second}", "stop_reason": "tool_use", "content": content}, second)


def line(kind: str, message: dict[str, Any], second: int) -> dict[str, Any]:
    """Return a line of a transcript of Claude Code."""
    time = f"2026-03-04T05:06:{second:02}.000Z"
    return {"type": kind, "message": message, "timestamp": time, "sessionId": "s1", "cwd": SHOP}
