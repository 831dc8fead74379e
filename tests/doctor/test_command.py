"""The command: exit codes, plain text, JSON."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from forked import finished
from memory_files import change

CHECKS = {
    "installation": "versions sqlite vector-search model tokens",
    "place": "file-system disk permissions log outbox",
    "contents": "file schema integrity tables erasure references index counts rows text chunks passages vectors "
    "superseded unindexed fingerprint keywords",
}
VECTOR_REMOVED = "delete from vec_chunk_search where passage_id = 2"


def run(*words: object, env: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess[str]:
    return finished(
        "doctor",
        *words,
        env={
            **os.environ,
            **env,
            "VECTOR_MEMORY_EMBEDDING_MODEL": "toy",
            "VECTOR_MEMORY_EMBEDDING_DIM": "16",
            "COLUMNS": "80",
        },
    )


def test_the_command_prints_plain_text_in_80_columns_and_exits_with_0(path: Path) -> None:
    ended = run("--database-path", path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Healthy: 22 checks, no problems, no warnings." in ended.stdout
    assert "\x1b" not in ended.stdout
    assert max(len(line) for line in ended.stdout.splitlines() if str(path) not in line) <= 80


def test_the_command_exits_with_1_if_there_is_a_problem_and_with_0_when_it_is_repaired(path: Path) -> None:
    change(path, VECTOR_REMOVED)
    assert run("--database-path", path).returncode == 1
    ended = run("--database-path", path, "--fix")
    assert ended.returncode == 0
    assert "Computed the vectors of 7 memories." in ended.stdout
    assert "Not healthy" not in ended.stdout


def test_json_is_one_object_with_stable_keys(path: Path) -> None:
    change(path, VECTOR_REMOVED)
    report = json.loads(run("--database-path", path, "--json", "--fix").stdout)
    assert list(report) == ["healthy", "database", "checks", "mended"]
    assert (report["healthy"], report["database"]) == (True, str(path))
    assert [(check["part"], check["name"]) for check in report["checks"]] == [
        (part, name) for part, names in CHECKS.items() for name in names.split()
    ]
    assert {tuple(check) for check in report["checks"]} == {("part", "name", "state", "message", "advice", "fixable")}
    assert report["mended"] == [
        "Copied 7 memories into a new file. The damaged one is kept as memory.db.before-repair.",
        "Computed the vectors of 7 memories.",
    ]


def test_a_report_of_a_bug_has_no_text_name_secret_or_absolute_path(path: Path, tmp_path: Path) -> None:
    """But what is wrong, how much there is, and which settings are not the defaults."""
    told = {"VECTOR_MEMORY_RETENTION": "agent:scout=7d", "VECTOR_MEMORY_LOG_FILE": str(tmp_path / "here" / "log.txt")}
    change(
        path, "update session_memories set content = 'Hunter2.', session_id = 'acme', agent_id = 'scout' where id = 2"
    )
    for folder in (tmp_path, path.parent):
        ended = run("--database-path", path, "--report", env=told | {"CLAUDE_PROJECT_DIR": str(folder)})
        report = json.loads(ended.stdout)
        assert ended.returncode == 1
        assert (report["settings"]["retention"], report["settings"]["embedding_model"]) == ("set", "toy")
        assert report["counts"]["total_memories"] == 7
        assert {check["name"] for check in report["checks"] if check["state"] == "problem"} >= {"text"}
        assert not [word for word in ("acme", "scout", "Hunter2", str(tmp_path)) if word in ended.stdout]


def test_a_report_of_a_bug_is_written_of_a_memory_that_cannot_be_opened(path: Path) -> None:
    os.truncate(path, 5000)
    report = json.loads(run("--database-path", path, "--report").stdout)
    assert report["counts"] == {"error": "DatabaseError"}
    assert str(path) not in json.dumps(report)
