"""The package in an empty environment of a user without a model: what `pip`, `pipx` and `uvx` leave behind."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import vector_memory
from clients import connected
from distribution.building import MODEL_PACKAGE, Distributions, Installed, install, uv
from eras import ERAS
from tool_calls import SESSION_TOOLS

pytestmark = pytest.mark.distribution

REPORT = {
    "agent_id": "explorer",
    "session_id": "outage",
    "title": "Outage",
    "content": "The servers were down until an engineer replaced the broken cooling fan.",
}
HEAVY = ("torch", "transformers", "sentence_transformers")


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest, distributions: Distributions, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """Either of what would be published, installed with the model's weights."""
    folder = tmp_path_factory.mktemp("installed") / request.param
    return install(folder, getattr(distributions, request.param), distributions.model)


@pytest.fixture(scope="module")
def without_weights(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel alone, as somebody may want it who has another model."""
    installed = install(tmp_path_factory.mktemp("installed") / "alone", distributions.wheel, distributions.model)
    uv("pip", "uninstall", "--quiet", "--python", installed.executables / "python", MODEL_PACKAGE)
    return installed


def installation(examined: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the state of each part of the installation, of which `doctor --json` printed this."""
    checks = json.loads(examined.stdout)["checks"]
    return {check["name"]: check["state"] for check in checks if check["part"] == "installation"}


async def stored_and_found(installed: Installed, folder: Path, query: str, era: str = "auto") -> Mapping[str, Any]:
    """Store a report with a server in a folder, and return the answer to a question."""
    async with connected(installed.command("serve"), folder, installed.variables, era=era) as client:
        assert {tool.name for tool in await client.list_tools()} >= {tool.name for tool in SESSION_TOOLS}
        assert (await client.call_tool("store_report", REPORT)).structured_content["success"]
        scope = {"query": query, "session_id": "outage"}
        return (await client.call_tool("search_reports_specific_chunks", scope)).structured_content


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.run("--version").stdout == f"{vector_memory.__version__}\n"


def test_the_command_explains_itself(installed: Installed) -> None:
    assert "Usage: vector-memory" in installed.run("--help").stdout
    assert "--database-path" in installed.run("serve", "--help").stdout


def test_all_dependencies_are_installed_and_no_heavy_ones(installed: Installed) -> None:
    uv("pip", "check", "--quiet", "--python", installed.executables / "python")
    packages = {path.name for path in next((installed.folder / "environment").glob("lib/*/site-packages")).iterdir()}
    assert not packages.intersection(HEAVY)


def test_the_doctor_reports_nothing(installed: Installed) -> None:
    assert set(installation(installed.run("doctor", "--json")).values()) == {"ok"}


@pytest.mark.anyio
async def test_a_server_finds_by_meaning(installed: Installed, tmp_path: Path) -> None:
    found = await stored_and_found(installed, tmp_path, "hardware failure: a ventilator")
    assert found["results"][0]["chunk_content"] == REPORT["content"]
    assert found["results"][0]["sources"] == ["vector"]


def test_the_doctor_reports_only_the_missing_model(without_weights: Installed) -> None:
    """Tokens are counted with the model's own tokenizer, if with any."""
    states = installation(without_weights.run("doctor", "--json"))
    assert {name for name, state in states.items() if state != "ok"} == {"model", "tokens"}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_without_a_model_a_server_stores_and_finds_by_words(
    without_weights: Installed, tmp_path: Path, era: str
) -> None:
    found = await stored_and_found(without_weights, tmp_path, "cooling fan", era)
    assert found["results"][0]["chunk_content"] == REPORT["content"]
    assert found["results"][0]["sources"] == ["keyword"]
    assert "fetch-model" in found["message"]
