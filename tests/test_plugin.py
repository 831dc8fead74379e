"""The Claude Code plugin in plugin/: what it names is there, and its command starts the server."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers import LEGACY
from vector_memory import __version__
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugin"
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
FILLED_IN = {"CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR", "HOME"}
"""What Claude Code fills in; others need a default."""


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture
def server() -> dict[str, Any]:
    (server,) = read(PLUGIN / ".mcp.json")["mcpServers"].values()
    return dict(server)


def filled(text: str, values: dict[str, str]) -> str:
    return VARIABLE.sub(lambda found: values.get(found[1]) or found[2] or "", text)


def test_the_manifest_says_what_claude_code_asks_for() -> None:
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert manifest["version"] == __version__
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", manifest["name"])
    assert manifest["description"]
    assert (PLUGIN / manifest["mcpServers"]).is_file()


def test_the_marketplace_of_the_clone_names_the_plugin() -> None:
    marketplace = read(ROOT / ".claude-plugin" / "marketplace.json")
    (entry,) = marketplace["plugins"]
    assert entry["name"] == read(PLUGIN / ".claude-plugin" / "plugin.json")["name"]
    assert (ROOT / entry["source"]).samefile(PLUGIN)
    assert marketplace["owner"]["name"]


def test_the_plugin_contains_the_source_of_the_server() -> None:
    """Claude Code copies the folder, and what its links lead to, when the plugin is installed."""
    for name in ("pyproject.toml", "uv.lock", "README.md", "LICENSE", "src"):
        assert (PLUGIN / name).samefile(ROOT / name)


def test_every_variable_is_filled_in_or_has_a_default(server: dict[str, Any]) -> None:
    found = VARIABLE.findall(json.dumps(server))
    assert found
    assert all(name in FILLED_IN or default for name, default in found)


@pytest.mark.skipif(shutil.which("uv") is None, reason="the plugin starts its server with uv")
def test_the_command_answers_with_the_tools_of_all_families(server: dict[str, Any], tmp_path: Path) -> None:
    values = {"CLAUDE_PLUGIN_ROOT": str(PLUGIN), "CLAUDE_PROJECT_DIR": str(tmp_path), "HOME": str(tmp_path)}
    # This uses installed packages; the tests of the package check that uv can install them.
    present = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "UV_NO_SYNC": "1", "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}
    variables = {name: filled(value, values) for name, value in server["env"].items()}
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {"id": 3, "method": "tools/call", "params": {"name": "memory_status", "arguments": {}}},
    ]
    answers = {}
    with subprocess.Popen(
        [server["command"], *(filled(argument, values) for argument in server["args"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **present, **variables},
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
        process.stdin.flush()
        while len(answers) < 3 and (line := process.stdout.readline()):
            answer = json.loads(line)
            answers[answer["id"]] = answer["result"]
        process.stdin.close()
    assert process.returncode == 0
    assert [tool["name"] for tool in answers[2]["tools"]] == [tool.name for tool in offered(tuple(Toolset))]
    assert not (tmp_path / "memory").exists(), "nothing is created before something is stored"
    assert list((tmp_path / ".claude" / "cwe" / "memory").glob("*.sqlite"))


@pytest.mark.skipif(shutil.which("claude") is None, reason="the Claude Code command line is not installed")
@pytest.mark.parametrize("folder", [ROOT, PLUGIN], ids=["marketplace", "plugin"])
def test_claude_code_accepts_the_plugin(folder: Path) -> None:
    subprocess.run(["claude", "plugin", "validate", "--strict", str(folder)], check=True, capture_output=True)
