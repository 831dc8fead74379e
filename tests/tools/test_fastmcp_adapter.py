"""The private parts of FastMCP and the MCP SDK: they exist in the releases that pyproject.toml allows."""

import tomllib
from importlib.metadata import version
from inspect import getattr_static
from pathlib import Path

import pytest
from fastmcp import FastMCP

from vector_memory.server import fastmcp_adapter

ROOT = Path(__file__).parents[2]
CHECKED = {"fastmcp": ("4.1", "fastmcp>=4.1.2,<4.2"), "mcp": ("2.3", "mcp>=2.3,<2.4")}
PRIVATE = ("_state_store", "_lifespan_manager", "_mcp_server")
SHARED = ("MessageStream", "SessionMessage", "coerce_request_id", "create_client_server_memory_streams")


@pytest.mark.parametrize("package", CHECKED)
def test_only_the_checked_minor_release_is_allowed(package: str) -> None:
    """A newer minor release is allowed only after the private names were checked against it."""
    minor, requirement = CHECKED[package]
    assert version(package).startswith(f"{minor}.")
    assert requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_server_has_the_private_member(name: str) -> None:
    """The adapter overrides or uses a member that FastMCP really has."""
    assert getattr_static(FastMCP("any"), name, None) is not None


@pytest.mark.parametrize("name", SHARED)
def test_the_sdk_has_the_name(name: str) -> None:
    """The adapter re-exports what the SDK keeps in `mcp.shared`."""
    assert getattr(fastmcp_adapter, name, None) is not None


def test_no_other_module_uses_them() -> None:
    """Private members and `mcp.shared` appear in the adapter only."""
    source = ROOT / "src" / "vector_memory"
    names = (*(f".{name}" for name in PRIVATE), "mcp.shared")
    users = {path.name for path in source.rglob("*.py") if any(name in path.read_text() for name in names)}
    assert users == {"fastmcp_adapter.py"}
