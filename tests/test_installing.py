"""What docs/installing.md and the files for clients say, tried: every snippet starts a server."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vector_memory
from clients import connected
from vector_memory.settings import ServerLocations, ServerOptions, Settings, Toolset

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "installing.md"
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```(?P<language>json|bash)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Yield the code blocks of the pages: their location and text."""
    for name, page in {"installing.md": PAGE, "README.md": ROOT / "README.md"}.items():
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block["language"] == language:
                yield f"{name}, {HEADING.findall(text, 0, block.start())[-1]}", block["text"]


def server_of(configuration: str) -> dict[str, Any]:
    """Return how a client's configuration starts the server; the key above it, and the transport, differ by client."""
    config = json.loads(configuration)
    [server] = (config.get("mcpServers") or config["servers"]).values()
    return {name: value for name, value in server.items() if name != "type"}


EXAMPLE = (ROOT / ".mcp.json.example").read_text(encoding="utf-8")
SHOWN = [*blocks("json"), (".mcp.json.example", EXAMPLE)]
CONFIGURATIONS = [
    (name, text)
    for number, (name, text) in enumerate(SHOWN)
    if server_of(text) not in [server_of(earlier) for _, earlier in SHOWN[:number]]
]
"""Without those that start the same server as one before."""

COMMANDS = {line.partition(" -- ")[2] for _, text in blocks("bash") for line in text.splitlines() if " -- " in line}


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Where the command of this environment is installed, and uv leaves the environment as it is."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": str(tmp_path)}
    return os.environ | home | {"PATH": path, "UV_NO_SYNC": "1", "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}


def filled(text: str, folder: Path, variables: dict[str, str]) -> str:
    """Put this machine's paths where the docs have those of an imagined one, and do what clients do with variables."""
    for name in re.findall(r"/home/me/([\w-]+)/[\w-]+\.db", text):
        (folder / name).mkdir(exist_ok=True)
    paths = {
        "/home/me/.local/bin": str(Path(sys.executable).parent),
        "/home/me": str(folder),
        "/path/to/vector-memory": str(ROOT),
        "${workspaceFolder}": str(folder),
    }
    for path, real in paths.items():
        text = text.replace(path, real)
    return VARIABLE.sub(lambda variable: variables.get(variable[1], variable[2]), text)


async def offered(configuration: str, folder: Path, variables: dict[str, str], **more: str) -> set[str]:
    """Start the server that a client's configuration names, and return the names of its tools."""
    server = server_of(filled(configuration, folder, variables | more))
    command = [server["command"], *server["args"]]
    async with connected(command, folder, variables | more | server.get("env", {})) as client:
        names = {tool.name for tool in await client.list_tools()}
        if "store_report" in names:
            await client.call_tool("store_report", {"agent_id": "a", "session_id": "s", "content": "Words."})
        return names


@pytest.mark.parametrize("configuration", [pytest.param(text, id=name) for name, text in CONFIGURATIONS])
async def test_the_server_of_every_configuration_starts_and_searches(
    configuration: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    names = await offered(configuration, tmp_path, variables)
    assert "search_reports_specific_chunks" in names
    assert ("store_report" in names) != ('"VECTOR_MEMORY_READ_ONLY": "true"' in configuration)
    assert list(tmp_path.rglob("*.db")) or "store_report" not in names, "the memory is in the user's folder"


@pytest.mark.parametrize("command", sorted(COMMANDS))
async def test_every_command_that_a_client_is_given_starts_a_server(
    command: str, tmp_path: Path, variables: dict[str, str]
) -> None:
    async with connected(shlex.split(filled(command, tmp_path, variables)), tmp_path, variables) as client:
        await client.call_tool("store_report", {"agent_id": "a", "session_id": "s", "content": "Words."})
    assert list(tmp_path.rglob("*.db"))


async def test_the_sdks_mcp_command_starts_the_server_of_a_clone(tmp_path: Path, variables: dict[str, str]) -> None:
    """`uv run mcp dev main.py`; here the inspector only becomes the server that it is given."""
    inspector = tmp_path / "npx"
    inspector.write_text('#!/bin/sh\n[ "$1" = @modelcontextprotocol/inspector ] && shift && exec "$@"\n')
    inspector.chmod(0o755)
    installed = {"PATH": f"{tmp_path}{os.pathsep}{variables['PATH']}", "UV_PROJECT_ENVIRONMENT": sys.prefix}
    command = ["uv", "run", "--directory", str(ROOT), "mcp", "dev", "main.py"]
    async with connected(command, tmp_path, variables | installed) as client:
        await client.call_tool("store_report", {"agent_id": "a", "session_id": "s", "content": "Words."})
    assert list(tmp_path.rglob("*.db"))


async def test_what_the_example_offers_can_be_chosen_by_variables(tmp_path: Path, variables: dict[str, str]) -> None:
    names = await offered(EXAMPLE, tmp_path, variables, VECTOR_MEMORY_READ_ONLY="true", VECTOR_MEMORY_TOOLSETS="all")
    assert "search_reports_specific_chunks" in names
    assert "memory_search" in names
    assert "store_report" not in names


def test_the_files_for_clients_are_of_this_version() -> None:
    entry = read("server.json")
    versions = {entry["version"], entry["packages"][0]["version"], read("mcpb/manifest.json")["version"]}
    assert versions == {vector_memory.__version__}
    page = PAGE.read_text(encoding="utf-8")
    assert f"vector_memory-{vector_memory.__version__}-py3-none-any.whl" in page
    assert f"vector-memory-{vector_memory.__version__}.mcpb" in page


def test_the_registry_entry_lists_existing_settings_with_their_defaults() -> None:
    fields = ServerLocations.model_fields | ServerOptions.model_fields | Settings.model_fields
    for variable in read("server.json")["packages"][0]["environmentVariables"]:
        default = fields[variable["name"].removeprefix("VECTOR_MEMORY_").lower()].default
        assert variable.get("default") == (as_text(default) if default is not None else None)


def test_the_registry_entry_is_valid() -> None:
    """What its schema asks of a name and a description; docs/installing.md says what has to be replaced."""
    entry = read("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    [package] = entry["packages"]
    assert (package["registryType"], package["identifier"]) == ("pypi", "vector-memory")
    assert package["transport"] == {"type": "stdio"}


def test_the_bundle_has_the_defaults_of_a_server() -> None:
    choices = read("mcpb/manifest.json")["user_config"]
    assert {
        name: option["default"] for name, option in choices.items() if "default" in option
    } == ServerOptions().model_dump(exclude={"answers"})
    assert all(toolset in choices["toolsets"]["description"] for toolset in Toolset)


def read(name: str) -> dict[str, Any]:
    """Read a JSON file of the project."""
    return dict(json.loads((ROOT / name).read_text(encoding="utf-8")))


def as_text(value: object) -> str:
    """Write a setting's value as a variable has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
