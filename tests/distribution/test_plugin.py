"""The plugin as it is published, for a user whose home is empty: uv installs what it carries, and it remembers."""

import json
import os
import re
import runpy
from pathlib import Path

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
    server = json.loads(filled)["mcpServers"]["vector-memory"]
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
