"""The commands backup and restore."""

import subprocess
from pathlib import Path

from forked import finished


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return finished(*words)


def test_the_commands_say_what_they_did(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    made = run("backup", copy, "--database-path", path)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("Copied 2 memories (0.")
    assert made.stdout.endswith(f" MB) to {copy}\n")
    put = run("restore", copy, "--overwrite", "--database-path", path)
    assert (put.returncode, put.stderr) == (0, "")
    restored, kept = put.stdout.splitlines()
    assert restored.startswith("Restored 2 memories (0.")
    assert kept == f"The previous memory is kept in {path}.before-restore"


def test_a_refusal_is_one_line_and_ends_with_1(path: Path, saved: Path) -> None:
    for words in (("backup", saved), ("restore", saved)):
        ended = run(*words, "--database-path", path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("vector-memory: ")
        assert ended.stderr.count("\n") == 1
