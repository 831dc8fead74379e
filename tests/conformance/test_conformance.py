"""The protocol's own conformance suite, in both eras: against the server for a team, with the suite's fixtures, and as
it is on one's own machine."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from conformance.fixture_server import team_with_fixtures
from from_npm import folder, installed
from over_http.conftest import SETTINGS, running
from servers import LEGACY, MODERN
from vector_memory.server.http.serving import application
from vector_memory.settings import HttpOptions, ServerOptions

pytestmark = pytest.mark.conformance

NO_SESSIONS = "the older era asks a client through its session, and this server keeps none"
NO_SUBSCRIPTIONS = "optional: the server does not declare that resources can be subscribed to"
NO_TASKS = "an extension: the server does not declare it"

EXPECTED = {
    LEGACY: {
        "tools-call-sampling": NO_SESSIONS,
        "tools-call-elicitation": NO_SESSIONS,
        "elicitation-sep1034-defaults": NO_SESSIONS,
        "elicitation-sep1330-enums": NO_SESSIONS,
        "server-sse-polling": NO_SESSIONS,
        "resources-subscribe": NO_SUBSCRIPTIONS,
        "resources-unsubscribe": NO_SUBSCRIPTIONS,
    },
    MODERN: {
        "tasks-lifecycle": NO_TASKS,
        "tasks-capability-negotiation": NO_TASKS,
        "tasks-wire-fields": NO_TASKS,
        "tasks-request-state-removal": NO_TASKS,
        "tasks-mrtr-input": NO_TASKS,
        "tasks-request-headers": NO_TASKS,
        "tasks-dispatch-and-envelope": NO_TASKS,
        "tasks-required-task-error": NO_TASKS,
        "tasks-mrtr-composition": NO_TASKS,
        "http-custom-header-server-validation": "optional: no tool asks for headers",
    },
}
"""Which scenarios fail, by the revision of the protocol, and why no server like ours can pass them."""

CALLS_FIXTURES = (
    "tools-call-",
    "resources-read-",
    "resources-templates-read",
    "prompts-get-",
    "input-required-result-",
    "elicitation-",
    "json-schema-2020-12",
)
"""The beginnings of the names of scenarios that call fixtures."""

CHECK_OF_FIXTURES = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}


def command() -> list[Path | str]:
    """Return the command of the suite, on the Node that came with it, else on this machine's."""
    return [installed("conformance", "node") or "node", folder("conformance") / "bin" / "conformance"]


def failures(url: str, revision: str, results: Path) -> dict[str, dict[str, str]]:
    """Run the scenarios that a revision requires; return the failed checks and why they failed, by scenario."""
    words = ["server", "--url", url, "--requirements", revision, "--output-dir", str(results)]
    ended = subprocess.run([*command(), *words], capture_output=True, text=True, check=False)
    assert "=== SUMMARY ===" in ended.stdout, ended.stderr
    failed = {}
    for path in results.glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
        checks = json.loads(path.read_text())
        wrong = {check["id"]: check.get("errorMessage", "") for check in checks if check["status"] == "FAILURE"}
        if wrong:
            failed[scenario] = wrong
    return failed


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")  # the suite asks for log messages
def test_the_server_for_a_team_passes_every_scenario_that_a_server_without_sessions_can(
    revision: str, tmp_path: Path
) -> None:
    with running(team_with_fixtures(tmp_path / "data", SETTINGS)) as url:
        failed = failures(url, revision, tmp_path / "results")
    assert failed.keys() == EXPECTED[revision].keys(), failed


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_the_server_on_ones_own_machine_fails_only_what_calls_fixtures(revision: str, tmp_path: Path) -> None:
    with running(application(tmp_path / "memory.db", SETTINGS, [], ServerOptions(), HttpOptions(http=True))) as url:
        failed = failures(url, revision, tmp_path / "results")
    ours = {name: checks for name, checks in failed.items() if not name.startswith(CALLS_FIXTURES)}
    ours = {name: checks for name, checks in ours.items() if not checks.keys() <= CHECK_OF_FIXTURES}
    expected = {name for name in EXPECTED[revision] if not name.startswith(CALLS_FIXTURES)}
    assert ours.keys() == expected, ours
