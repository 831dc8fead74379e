"""A user of the real Claude Code, whose model is scripted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_client.claude_code import User
from real_client.installing import installed, version
from real_client.scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def command() -> Path:
    found = installed()
    if found is None:
        pytest.skip(f"Claude Code {version()} is not installed: uv run python tests/real_client/installing.py")
    if shutil.which("uv") is None:
        pytest.skip("the plugin starts its server with uv, which is not installed")
    return found


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as playing:
        yield playing


@pytest.fixture
def user(command: Path, tmp_path: Path, model: ScriptedModel) -> User:
    return User(command, tmp_path, model)
