"""delete, backfill, reembed, backup, restore, fetch-model with --json; and completion."""

import subprocess
from pathlib import Path

import pytest

import vector_memory.embedding.fetch
from commands.conftest import Run
from memory_files import contents


def test_delete_removes_a_memory_for_good(memory: Path, run: Run) -> None:
    """The others stay; a second time there is nothing to delete."""
    assert run("delete", 2) == (0, "Deleted report 2 with all its chunks.\n", "")
    assert len(contents(memory)) == 4
    assert run("delete", 2).code == 1
    assert run("delete", 3, "--json").json["memory_id"] == 3


def test_maintenance_commands_answer_in_json(
    memory: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command prints one object that says what it did."""
    assert run("backfill", "--json").json["memories_remaining"] == 0
    assert run("reembed", "--json").json["success"]
    backup = run("backup", "copy.db", "--json").json
    assert (backup["memories"], backup["file"]) == (5, str(tmp_path / "copy.db"))
    restored = run("restore", "copy.db", "--overwrite", "--json").json
    assert (restored["memories"], restored["kept"]) == (5, f"{memory}.before-restore")
    assert run("doctor", "--json").json["healthy"]
    monkeypatch.setattr(vector_memory.embedding.fetch, "fetch_model", lambda _say: tmp_path)
    assert run("fetch-model", "--json").json == {"success": True, "folder": str(tmp_path)}


def test_invalid_arguments_are_reported_in_json_too(run: Run) -> None:
    """An error has the same shape, whatever it is."""
    ended = run("sessions", "--lmit", "3", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended._replace(out=ended.err).json["error"] == "ValidationError"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(shell: str, run: Run) -> None:
    """The printed script names them, and bash accepts it."""
    script = run("completion", shell).out
    for word in ("ingest", "timeline", "grain", "report_observation"):
        assert word in script
    if shell == "bash":
        ended = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
