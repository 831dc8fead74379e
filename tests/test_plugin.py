"""The Claude Code plugin in plugin/: what it names is there, and its command starts the server."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients import connected
from servers import LEGACY, QUICK
from vector_memory import __version__
from vector_memory.server.tools import offered
from vector_memory.settings import Profile, Toolset

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugin"
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
REPORT = {"agent_id": "a", "session_id": "s", "content": "The fan was broken."}
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
    for name in ("pyproject.toml", "uv.lock", "LICENSE", "src", "packages"):
        assert (PLUGIN / name).samefile(ROOT / name)


def test_every_variable_is_filled_in_or_has_a_default(server: dict[str, Any]) -> None:
    found = VARIABLE.findall(json.dumps(server))
    assert found
    assert all(name in FILLED_IN or default for name, default in found)


def test_no_tool_of_the_core_has_a_name_that_a_client_would_cut() -> None:
    """64 characters are the most that models' interfaces accept; the other clients' prefixes are shorter."""
    (name,), plugin = read(PLUGIN / ".mcp.json")["mcpServers"], read(PLUGIN / ".claude-plugin" / "plugin.json")["name"]
    names = [tool.name for tool in offered((Toolset.SESSION,), profile=Profile.CORE)]
    assert max(len(f"mcp__plugin_{plugin}_{name}__{tool}") for tool in names) <= 64
    assert max(len(f"mcp__vector-memory__{tool.name}") for tool in offered(Toolset, profile=Profile.ALL)) <= 64


@pytest.mark.skipif(shutil.which("uv") is None, reason="the plugin starts its server with uv")
def test_the_command_answers_with_the_tools_of_the_core(server: dict[str, Any], tmp_path: Path) -> None:
    values = {"CLAUDE_PLUGIN_ROOT": str(PLUGIN), "CLAUDE_PROJECT_DIR": str(tmp_path), "HOME": str(tmp_path)}
    # This uses installed packages; the tests of the package check that uv can install them.
    present = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "UV_NO_SYNC": "1", "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}
    variables = {name: filled(value, values) for name, value in server["env"].items()}
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {"id": 3, "method": "tools/call", "params": {"name": "store_report", "arguments": REPORT}},
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
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
        process.stdin.flush()
        while len(answers) < 3 and (line := process.stdout.readline()):
            answer = json.loads(line)
            answers[answer["id"]] = answer["result"]
        process.stdin.close()
    assert process.returncode == 0
    core = offered((Toolset.SESSION,), profile=Profile.CORE)
    assert [tool["name"] for tool in answers[2]["tools"]] == [tool.name for tool in core]
    assert (tmp_path / "memory" / "agent_session_memory.db").is_file(), "where `install` has it too"


SKILL = "skill://vector-memory/SKILL.md"


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("flags", [(), ("--profile", "core"), ("--read-only",), ("--toolsets", "tagged")])
async def test_the_server_offers_the_skill_to_clients_without_the_plugin(
    era: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    command = [sys.executable, "-P", "-m", "vector_memory", "serve", "--database-path", str(tmp_path / "m.db"), *flags]
    async with connected(command, tmp_path, os.environ | QUICK, era=era) as client:
        is_offered = flags in ((), ("--profile", "core"))  # those servers store reports, as it says
        declared = client.server_capabilities.extensions or {}
        assert ("io.modelcontextprotocol/skills" in declared) is (is_offered and era == "auto")
        assert (SKILL in [str(one.uri) for one in await client.list_resources()]) is is_offered
        if is_offered:
            skill = await client.read_skill(SKILL)
            assert skill.files["SKILL.md"] == (PLUGIN / "skills" / "vector-memory" / "SKILL.md").read_bytes()
            if era == "auto":
                assert [one.uri for one in await client.list_skills()] == [SKILL]


def written_for_agents() -> list[Path]:
    return [*(PLUGIN / "skills").glob("*/SKILL.md"), *sorted((PLUGIN / "commands").glob("*.md"))]


def test_skill_and_commands_are_short_and_name_only_tools_that_are_offered() -> None:
    texts = [path.read_text(encoding="utf-8") for path in written_for_agents()]
    assert len(texts) == 4
    assert sum(text.count("\n") for text in texts) < 150
    names = {tool.name for tool in offered((Toolset.SESSION,), profile=Profile.CORE)}
    named = set(re.findall(r"`((?:store|search|load|get)_\w+)`", " ".join(texts)))
    assert named <= names
    assert {"store_report", "store_session_context", "search_reports_specific_chunks"} <= named


@pytest.mark.parametrize("path", written_for_agents(), ids=lambda path: path.stem)
def test_every_text_for_agents_says_what_it_is_for(path: Path) -> None:
    head = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])
    assert head["description"]
    assert head.get("name", path.stem) in {path.stem, path.parent.name}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is published."""
    folder = tmp_path_factory.mktemp("published") / "vector-memory"
    runpy.run_path(str(ROOT / "scripts" / "make_plugin.py"))["fill"](folder)
    return folder


def test_what_is_published_has_every_file_and_no_link(published: Path) -> None:
    paths = {path.relative_to(published) for path in published.rglob("*")}
    assert not [path for path in paths if (published / path).is_symlink()]
    assert not {"__pycache__", ".venv"}.intersection(part for path in paths for part in path.parts)
    for folder in (".claude-plugin", "commands", "hooks", "skills"):
        assert {path.relative_to(PLUGIN) for path in (PLUGIN / folder).rglob("*")} <= paths
    assert {Path(".mcp.json"), Path("README.md"), Path("LICENSE")} <= paths
    assert (published / "src" / "vector_memory" / "__main__.py").is_file()
    icon = (published / ".claude-plugin" / "icon.png").read_bytes()
    assert icon[:4] == b"\x89PNG"
    assert int.from_bytes(icon[16:20]) == int.from_bytes(icon[20:24]) >= 512


@pytest.mark.skipif(shutil.which("claude") is None, reason="Claude Code is not installed")
def test_claude_code_accepts_the_plugin_as_it_is_published(published: Path) -> None:
    for words in runpy.run_path(str(ROOT / "scripts" / "make_plugin.py"))["checks"]():
        subprocess.run([*words, published], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("claude") is None, reason="Claude Code is not installed")
@pytest.mark.parametrize("folder", [ROOT, PLUGIN], ids=["marketplace", "plugin"])
def test_claude_code_accepts_the_plugin_of_the_clone(folder: Path) -> None:
    subprocess.run(["claude", "plugin", "validate", "--strict", folder], check=True, capture_output=True)
