"""The private parts of FastMCP and the MCP SDK: they exist in the releases that pyproject.toml allows."""

import tomllib
from collections.abc import Callable
from importlib.metadata import version
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.prompts import function_prompt
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.tools import function_parsing
from fastmcp.utilities import docstring_parsing

from vector_memory.server import fastmcp_adapter
from vector_memory.server.prompts import hand_over
from vector_memory.server.tools.sessions import get_memory_by_id

ROOT = Path(__file__).parents[2]
CHECKED = {"fastmcp": ("4.2", "fastmcp>=4.2.3,<4.3"), "mcp": ("2.3", "mcp>=2.3,<2.4")}
PRIVATE = ("_state_store", "_lifespan_manager", "_mcp_server")
OF_VERIFIER = ("_get_jwks_key", "_fetch_jwks", "_jwks_cache")


@pytest.mark.parametrize("package", CHECKED)
def test_only_the_checked_minor_release_is_allowed(package: str) -> None:
    """A newer minor release is allowed only after the private names were checked against it."""
    minor, requirement = CHECKED[package]
    assert version(package).startswith(f"{minor}.")
    assert requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


@pytest.mark.parametrize("name", [*PRIVATE, *OF_VERIFIER])
def test_fastmcp_has_the_private_member(name: str) -> None:
    """What the adapter and the check of signed tokens override or use."""
    owner = FastMCP("any") if name in PRIVATE else JWTVerifier(jwks_uri="https://id.example.com/keys")
    assert getattr_static(owner, name, None) is not None


def test_no_other_module_uses_them() -> None:
    """Private members and `mcp.shared` appear in the adapter only."""
    source = ROOT / "src" / "vector_memory"
    names = (*(f".{name}" for name in PRIVATE), "mcp.shared")
    users = {path.name for path in source.rglob("*.py") if any(name in path.read_text() for name in names)}
    assert users == {"fastmcp_adapter.py"}


@pytest.mark.parametrize("function", [hand_over, get_memory_by_id])
def test_a_docstring_is_read_as_fastmcp_reads_it(function: Callable[..., Any]) -> None:
    """Without the library that FastMCP imports for it."""
    assert fastmcp_adapter.read_docstring(function) == docstring_parsing.parse_docstring(function)
    used = {vars(module)["parse_docstring"] for module in (function_parsing, function_prompt)}
    assert used == {fastmcp_adapter.read_docstring}
