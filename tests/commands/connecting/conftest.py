"""A user with an empty home, in a project, and a command that stands in for Claude Code's."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home; the current folder is a project in a repository."""
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH", raising=False)
    home = tmp_path / "home"
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / ".git" / "HEAD").symlink_to("refs/heads/main")  # all that a repository needs
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path / "project")
    return home


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


STAND_IN = f"""#!{sys.executable}
import json, os, pathlib, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print(os.environ.get("CLAUDE_VERSION", "2.1.330"), "(Claude Code)"))
file = pathlib.Path(os.environ["HOME"], ".claude.json")
held = {{"mcpServers": {{}}}} | json.loads((file.exists() and file.read_text("utf-8-sig")) or "{{}}")
_, action, _, _, name, *entry = sys.argv[1:]
if entry and "broken" in entry[0]:
    sys.exit("Invalid configuration")
if action == "remove":
    del held["mcpServers"][name]
else:
    held["mcpServers"][name] = json.loads(entry[0])
file.write_text(json.dumps(held))
"""
"""Does what `claude mcp add-json`, `claude mcp remove` and `claude --version` do;
tests/real_client has the real one."""


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that stands in for Claude Code's."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "bin" / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
