"""What agents in the real Codex get from the server's tools."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from real_client.much import ASKING_FOR_MUCH, LONG_DOCUMENTS
from real_client.received import Answer
from real_client.scripted_model import CODEX, ScriptedModel, Turn, memory

pytestmark = pytest.mark.real_client

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
