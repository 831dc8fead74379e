"""install and uninstall with the real clients, where they are installed: they find the server and connect to it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_client

needs_claude = pytest.mark.skipif(shutil.which("claude") is None, reason="Claude Code is not installed")
needs_codex = pytest.mark.skipif(shutil.which("codex") is None, reason="Codex is not installed")


class Machine:
    """A user with an empty home, in a project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        for made in (self.home, self.project):
            made.mkdir()

    def run(self, *words: str, says: int = 0) -> str:
        """Run a command in the project and return what it says; `says`: the exit code it must end with."""
        quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "CODEX", "VECTOR_"))
        }
        done = subprocess.run(
            words,
            env={**kept, **quiet, "HOME": str(self.home), "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"},
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == says, done.stdout + done.stderr
        return done.stdout

    def ours(self, *words: str) -> str:
        return self.run(sys.executable, "-P", "-m", "vector_memory", *words)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@needs_claude
def test_claude_code_connects_after_install_and_has_nothing_after_uninstall(machine: Machine) -> None:
    machine.ours("install", "claude", "--yes")
    assert "Connected" in machine.run("claude", "mcp", "list")
    machine.ours("install", "claude", "--profile", "full", "--yes")
    assert "Connected" in machine.run("claude", "mcp", "list")
    assert "already connected" in machine.ours("install", "claude", "--profile", "full")
    machine.ours("uninstall", "claude", "--yes")
    assert "vector-memory" not in machine.run("claude", "mcp", "list")


@needs_claude
def test_claude_code_waits_for_approval_in_a_project_as_install_says(machine: Machine) -> None:
    assert "pending approval" in machine.ours("install", "claude", "--project", "--yes")
    assert "Pending approval" in machine.run("claude", "mcp", "list")


@needs_codex
def test_codex_lists_the_server_and_keeps_the_file_readable(machine: Machine) -> None:
    (machine.home / ".codex").mkdir()
    config = machine.home / ".codex" / "config.toml"
    text = '# mine\n[mcp_servers.other]\ncommand = "x" # keep\n'
    config.write_text(text, encoding="utf-8")
    machine.ours("install", "codex", "--yes")
    listed = {server["name"]: server for server in json.loads(machine.run("codex", "mcp", "list", "--json"))}
    assert listed["vector-memory"]["transport"]["args"] == ["serve", "--profile", "core"]
    assert listed["vector-memory"]["enabled"]
    assert text in config.read_text(encoding="utf-8")
    machine.ours("uninstall", "codex", "--yes")
    assert "vector-memory" not in machine.run("codex", "mcp", "list")
    assert config.read_text(encoding="utf-8") == text


@needs_codex
def test_codex_reads_the_entry_of_a_project_that_is_trusted(machine: Machine) -> None:
    machine.ours("install", "codex", "--project", "--yes")
    assert "vector-memory" not in machine.run("codex", "mcp", "list")
    (machine.home / ".codex").mkdir(exist_ok=True)
    trusted = f'[projects."{machine.project}"]\ntrust_level = "trusted"\n'
    (machine.home / ".codex" / "config.toml").write_text(trusted, encoding="utf-8")
    assert "vector-memory" in machine.run("codex", "mcp", "list")
