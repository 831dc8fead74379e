"""What agents in the real Codex get, and real clients with a shared memory over HTTP, with hooks."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from http_page import snippet
from over_http.conftest import Team, serving
from real_client.claude_code import User
from real_client.much import ASKING_FOR_MUCH, LONG_DOCUMENTS
from real_client.received import Answer
from real_client.scripted_model import CODEX, CODEX_WAITS, Call, Say, ScriptedModel, Turn, memory
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import HttpOptions
from waiting import eventually

pytestmark = pytest.mark.real_client

TEXT = "An engineer replaced the broken cooling fan."
TOOLS = "mcp__vector-memory__"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server with a namespace for each test."""
    folder = tmp_path_factory.mktemp("team")
    with serving(HttpOptions(http=True, data_dir=folder), folder) as url:
        yield Team(url, folder)


@pytest.fixture
def secret(team: Team) -> str:
    """A token of a namespace of the test's own."""
    name = f"space-{len(Registry(team.folder).names())}"
    Registry(team.folder).create(name)
    return team.token(name, name, "write")


@pytest.fixture
def token_file(secret: str, tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(secret)
    path.chmod(0o600)
    return path


def turns(prefix: str = TOOLS) -> list[Turn]:
    """Return the turns of an agent that stores and searches."""
    return [
        [Call(f"{prefix}store_report", {"content": TEXT, "session_id": "outage"})],
        [Call(f"{prefix}search_reports_specific_chunks", {"query": "cooling fan", "session_id": "outage"})],
    ]


def assert_found(answers: list[Answer]) -> None:
    """Check that what was stored was found, and that it is the only memory."""
    stored, found = answers
    (result,) = found.fields["results"]
    assert (result["memory_id"], stored.fields["memory_id"]) == (1, 1)
    assert result["chunk_content"] == TEXT


def ours(*words: str, env: Mapping[str, str], cwd: Path) -> None:
    subprocess.run([sys.executable, "-P", "-m", "vector_memory", *words], env=env, cwd=cwd, check=True)


def asked_of_claude(user: User) -> list[Answer]:
    """Let the user, who has no plugin, type a prompt; return what the agent's calls returned."""
    received = len(user.model.answers())
    user.model.script["Begin."] = turns()
    subprocess.run(
        [user.command, "-p", "Begin.", "--allowedTools", f"{TOOLS}*"],
        env=user.variables,
        cwd=user.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return user.model.answers()[received:]


def test_claude_code_uses_the_memory_that_its_snippet_adds(user: User, team: Team, secret: str) -> None:
    line = snippet("bash", "claude mcp add", team.url).replace("claude", str(user.command), 1)
    variables = {**user.variables, "VECTOR_MEMORY_TOKEN": secret}
    subprocess.run(["bash", "-c", line], env=variables, cwd=user.project, check=True, capture_output=True)
    assert_found(asked_of_claude(user))


def test_claude_code_uses_the_memory_that_install_adds(user: User, team: Team, token_file: Path) -> None:
    with_claude = {**user.variables, "PATH": f"{user.command.parent}:{os.environ['PATH']}"}
    words = ["install", "claude", "--http", team.url, "--token-file", str(token_file), "--tools-only", "--yes"]
    ours(*words, env=with_claude, cwd=user.project)
    assert_found(asked_of_claude(user))


def asked_of_codex(codex: Path, folder: Path, model: ScriptedModel, **variables: str) -> list[Answer]:
    """Let a user whose configuration is in a folder type a prompt; return what the agent's calls returned."""
    received = len(model.answers())
    model.script["Begin."] = turns()
    subprocess.run(
        [codex, "exec", "--skip-git-repo-check", *CODEX_WAITS, "Begin."],
        env={**of_codex(folder), **variables},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return model.answers()[received:]


def of_codex(folder: Path) -> dict[str, str]:
    """Return the environment of Codex."""
    return {"HOME": str(folder), "CODEX_HOME": str(folder), "PATH": os.environ["PATH"]}


def test_codex_uses_the_memory_that_its_snippet_adds(
    codex: Path, team: Team, secret: str, tmp_path: Path, model: ScriptedModel
) -> None:
    (tmp_path / "config.toml").write_text(CODEX.format(url=model.url), encoding="utf-8")
    line = snippet("bash", "codex mcp add", team.url).replace("codex", str(codex), 1)
    subprocess.run(["bash", "-c", line], env=of_codex(tmp_path), check=True, capture_output=True)
    assert_found(asked_of_codex(codex, tmp_path, model, VECTOR_MEMORY_TOKEN=secret))


def test_codex_uses_the_memory_that_install_adds(
    codex: Path, team: Team, token_file: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    (tmp_path / "config.toml").write_text(CODEX.format(url=model.url), encoding="utf-8")
    words = ["install", "codex", "--http", team.url, "--token-file", str(token_file), "--tools-only", "--yes"]
    ours(*words, env=of_codex(tmp_path), cwd=tmp_path)
    assert_found(asked_of_codex(codex, tmp_path, model))


def test_the_plugin_and_its_hooks_use_the_shared_memory(user: User, team: Team, token_file: Path) -> None:
    shared = {"VECTOR_MEMORY_REMOTE": team.url, "VECTOR_MEMORY_TOKEN_FILE": str(token_file)}
    answer = f"The nightly import fails because a disk of the staging machine is full. {TEXT} " * 3
    with user.session(**shared) as session:
        session.ask("Find out why the nightly import fails.", [Say(answer)])
        eventually(lambda: session.hooks("Stop"))
        assert {hook["outcome"] for hook in session.hooks()} == {"success"}
    with user.session(**shared) as session:
        session.ask("Go on where we stopped.")
    assert "nightly import" in user.model.requests[-1].text
    assert not user.database.exists()


CONFIGURATION = f"""{CODEX}
[mcp_servers.vector-memory]
command = "{{command}}"
args = ["serve"]
required = true
startup_timeout_sec = 60
"""


def asked(codex: Path, folder: Path, *turns: Turn) -> list[Answer]:
    """Let a user with an empty home and an empty project type a prompt; return what the agent's calls returned."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    with ScriptedModel({"Begin.": turns}) as model:
        command = Path(sys.executable).with_name("vector-memory")
        (home / "config.toml").write_text(CONFIGURATION.format(url=model.url, command=command), encoding="utf-8")
        subprocess.run(
            [codex, "exec", "--skip-git-repo-check", "Begin."],
            cwd=project,
            env={"HOME": str(home), "CODEX_HOME": str(home), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=120,
        )
        return model.answers()


def test_what_an_agent_in_codex_stores_is_found_by_its_meaning(codex: Path, tmp_path: Path) -> None:
    who = {"agent_id": "engineer", "session_id": "outage"}
    stored, found, missing = asked(
        codex,
        tmp_path,
        [memory("store_report", content="An engineer replaced the broken cooling fan.", **who)],
        [memory("search_reports_specific_chunks", query="hardware failure: a ventilator", session_id="outage")],
        [memory("get_memory_by_id", memory_id=999)],
    )
    (result,) = found.fields["results"]
    assert result["memory_id"] == stored.fields["memory_id"]
    assert result["sources"] == ["vector"]
    assert "There is no memory 999" in missing.fields["message"]


def test_the_longest_answer_arrives_whole_in_codex(codex: Path, tmp_path: Path) -> None:
    *_, found = asked(codex, tmp_path, *ASKING_FOR_MUCH)
    assert len(found.fields["results"]) == len(LONG_DOCUMENTS)
