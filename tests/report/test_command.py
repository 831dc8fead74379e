"""The command report."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from forked import finished


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return finished("report", *words)


@pytest.mark.usefixtures("session")
def test_the_page_is_for_its_owner_only_and_replaced_only_on_request(tmp_path: Path) -> None:
    file, place = tmp_path / "session.html", ("--database-path", tmp_path / "memory.db")
    old = os.umask(0)
    try:
        made = run("s", "-o", file, "--json", *place)
    finally:
        os.umask(old)
    assert (made.returncode, made.stderr) == (0, "")
    said = json.loads(made.stdout)
    counts = {name: said[name] for name in ("success", "memories", "shown", "texts", "file", "bytes")}
    assert counts == {
        "success": True,
        "memories": 5,
        "shown": 5,
        "texts": 5,
        "file": str(file),
        "bytes": file.stat().st_size,
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("mine", encoding="utf-8")
    refused = run("s", "-o", file, *place)
    assert (refused.returncode, refused.stdout, file.read_text(encoding="utf-8")) == (1, "", "mine")
    assert "--overwrite" in refused.stderr
    replaced = run("s", "-o", file, "--overwrite", *place)
    assert replaced.stdout.startswith("Wrote 5 memories (0.")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("session")
def test_an_unknown_session_creates_no_file(tmp_path: Path) -> None:
    ended = run("nobody", "-o", tmp_path / "n.html", "--database-path", tmp_path / "memory.db")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr
        == "vector-memory: Nothing is stored in this session: `vector-memory sessions` lists the sessions.\n"
    )
    assert not list(tmp_path.glob("*.html*"))
