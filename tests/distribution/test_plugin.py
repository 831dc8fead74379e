"""The plugin and the .mcpb bundle as they are published: installed by a user whose home is empty, they remember."""

import json
import os
import re
import runpy
from pathlib import Path
from string import Template

import pytest

from clients import connected
from distribution.building import ROOT

pytestmark = [pytest.mark.distribution, pytest.mark.anyio]

REPORT = {"agent_id": "a", "session_id": "s", "content": "An engineer replaced the broken cooling fan."}
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


async def test_the_published_plugin_starts_and_finds_by_meaning(tmp_path: Path) -> None:
    plugin, home, project = tmp_path / "plugin", tmp_path / "home", tmp_path / "project"
    runpy.run_path(str(ROOT / "scripts" / "make_plugin.py"))["fill"](plugin)
    home.mkdir()
    project.mkdir()
    values = {"CLAUDE_PLUGIN_ROOT": str(plugin), "CLAUDE_PROJECT_DIR": str(project), "HOME": str(home)}
    text = (plugin / ".mcp.json").read_text(encoding="utf-8")
    filled = VARIABLE.sub(lambda found: values.get(found[1], found[2]), text)
    server = json.loads(filled)["mcpServers"]["memory"]
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("VECTOR_MEMORY", "HF_", "VIRTUAL"))}
    variables = {**kept, "HF_HOME": str(home / "no cache"), **server["env"]}
    async with connected([server["command"], *server["args"]], project, variables) as client:
        assert len(await client.list_tools()) == 8
        await client.call_tool("store_report", REPORT)
        found = await client.call_tool("search_reports_specific_chunks", {"query": "hardware failure: a ventilator"})
    [hit] = found.structured_content["results"]
    assert hit["content"] == REPORT["content"]
    assert hit["match"] in {"strong", "related"}  # said only if meaning was compared
    assert (project / "memory" / "agent_session_memory.db").is_file()
    assert (plugin / ".venv").is_dir(), "it ran from what the plugin carries"


class Manifest(Template):
    """Text with ${user_config.name} in it."""

    braceidpattern = r"[a-z_.]+"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the bundle in a folder."""
    folder = tmp_path_factory.mktemp("bundle") / "unpacked"
    runpy.run_path(str(ROOT / "scripts" / "make_bundle.py"))["fill"](folder)
    return folder


def command(bundle: Path, **choices: str) -> list[str]:
    """Return the command line that a client makes of the manifest."""
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    config = manifest["server"]["mcp_config"]
    defaults = {name: json.dumps(option.get("default")).strip('"') for name, option in manifest["user_config"].items()}
    values = {f"user_config.{name}": value for name, value in (defaults | choices).items()}
    return [Manifest(word).substitute(values, __dirname=str(bundle)) for word in (config["command"], *config["args"])]


def variables(folder: Path) -> dict[str, str]:
    """Return those of a user who has no model in a cache."""
    return os.environ | {"HF_HOME": str(folder / "no cache")}


async def test_the_bundle_stores_and_finds_by_meaning_in_the_chosen_folder(bundle: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "my folder"
    chosen.mkdir()
    async with connected(command(bundle, folder=str(chosen)), tmp_path, variables(tmp_path)) as client:
        await client.call_tool("store_report", REPORT)
        scope = {"query": "hardware failure: a ventilator", "session_id": "s"}
        found = await client.call_tool("search_reports_specific_chunks", scope)
    [hit] = found.structured_content["results"]
    assert hit["content"] == REPORT["content"]
    assert hit["match"] in {"strong", "related"}  # said only if meaning was compared
    assert (chosen / "memory" / "agent_session_memory.db").is_file()


async def test_a_read_only_bundle_offers_no_tool_that_stores(bundle: Path, tmp_path: Path) -> None:
    chosen = {"folder": str(tmp_path), "read_only": "true"}
    async with connected(command(bundle, folder=str(tmp_path)), tmp_path, variables(tmp_path)) as client:
        await client.call_tool("store_report", REPORT)
    async with connected(command(bundle, **chosen), tmp_path, variables(tmp_path)) as client:
        names = {tool.name for tool in await client.list_tools()}
    assert "search_reports_specific_chunks" in names
    assert "store_report" not in names
