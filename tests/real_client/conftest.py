"""The clients, and a user of Claude Code whose model is scripted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from from_npm import installed
from real_client.claude_code import User
from real_client.scripted_model import ScriptedModel


def found(name: str) -> Path:
    """Return a client's command, or skip the test."""
    command = installed("real_client", name)
    if command is None:
        pytest.skip(f"{name} is not installed: uv run python tests/from_npm.py real_client")
    return command


@pytest.fixture(scope="session")
def claude() -> Path:
    if shutil.which("uv") is None:
        pytest.skip("the plugin starts its server with uv, which is not installed")
    return found("claude")


@pytest.fixture(scope="session")
def codex() -> Path:
    return found("codex")


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as playing:
        yield playing


@pytest.fixture
def user(claude: Path, tmp_path: Path, model: ScriptedModel) -> User:
    return User(claude, tmp_path, model)
