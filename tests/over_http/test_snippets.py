"""The snippets for clients in docs/http.md, and what `install` writes, as far as they need no program of others."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from forked import finished
from http_page import FOUND, snippet
from over_http.conftest import Team
from servers import QUICK
from vector_memory.clients.registry import CLIENTS

pytestmark = pytest.mark.anyio

REPORT = {"session_id": "fans", "content": f"# Fan\n\n{FOUND}"}


@pytest.fixture(scope="module")
def secret(team: Team) -> str:
    """A token of a client."""
    return team.token("client", permission="write")


async def assert_stores_and_finds(client: Client, agent: str) -> None:
    """Store a report and find it."""
    assert (await client.call_tool("store_report", {**REPORT, "agent_id": agent})).structured_content["memory_id"]
    found = await client.call_tool("search_reports_specific_chunks", {"query": "rack 7", "agent_id": agent})
    assert FOUND in found.structured_content["results"][0]["chunk_content"]


async def test_the_file_for_vs_code_leads_to_the_memory(team: Team, secret: str) -> None:
    file = json.loads(snippet("json", "servers", team.url))
    entry = file["servers"]["vector-memory"]
    (asked,) = file["inputs"]
    headers = {name: value.replace(f"${{input:{asked['id']}}}", secret) for name, value in entry["headers"].items()}
    assert entry["type"] == "http"
    async with Client(StreamableHttpTransport(entry["url"], headers=headers)) as client:
        await assert_stores_and_finds(client, "vscode")


def test_the_program_in_python_stores_and_finds(team: Team, secret: str) -> None:
    ended = finished("-c", snippet("python", "mcp", team.url), env=os.environ | {"VECTOR_MEMORY_TOKEN": secret})
    assert (ended.returncode, FOUND in ended.stdout) == (0, True), ended.stderr


async def test_install_writes_an_entry_that_leads_each_client_to_the_memory(
    team: Team, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    token = tmp_path / "token"
    token.write_text(secret)
    token.chmod(0o600)
    started = []
    for name in ("vscode", "cursor", "desktop"):
        words = ["install", name, "--http", team.url, "--token-file", token, "--yes"]
        assert finished(*words, cwd=tmp_path).returncode == 0
        client = CLIENTS[name]
        file = json.loads(client.files[client.default](tmp_path).read_text(encoding="utf-8"))
        entry: dict[str, Any] = file[client.section]["vector-memory"]
        started.append((entry["command"], entry["args"]))
        assert secret not in json.dumps(entry)
    assert all(one == started[0] for one in started)
    command, arguments = started[0]
    transport = StdioTransport(command, arguments, env={**os.environ, **QUICK}, cwd=str(tmp_path), keep_alive=False)
    async with Client(transport) as client:
        await assert_stores_and_finds(client, "desktop")
