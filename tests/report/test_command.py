"""The command report."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from engines import place_of
from forked import finished
from vector_memory.cli.commands.report import file_name


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return finished("report", *words)


@pytest.mark.usefixtures("session")
def test_the_page_is_for_its_owner_only_and_replaced_only_on_request(tmp_path: Path) -> None:
    file, place = tmp_path / "session.html", place_of(tmp_path / "memory.db")
    made = finished("report", "s", "-o", file, "--json", *place, umask=0)
    assert (made.returncode, made.stderr) == (0, "")
    said = json.loads(made.stdout)
    assert {name: said[name] for name in ("success", "memories", "shown", "texts", "file", "bytes")} == {
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
    assert run("s", "-o", file, "--overwrite", *place).stdout.startswith("Wrote 5 memories (0.")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("session")
def test_an_unknown_session_creates_no_file(tmp_path: Path) -> None:
    ended = run("nobody", "-o", tmp_path / "n.html", *place_of(tmp_path / "memory.db"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith('vector-memory: There is no session "nobody": ')
    assert not list(tmp_path.glob("*.html*"))


@pytest.mark.usefixtures("session")
def test_without_a_file_the_page_is_named_like_the_session(tmp_path: Path) -> None:
    """With --all each session has a page of its own, in the folder that is given."""
    place = place_of(tmp_path / "memory.db")
    said = json.loads(run("--all", "-o", tmp_path / "pages", "--json", *place).stdout)
    assert sorted(page["file"] for page in said["pages"]) == [
        str(tmp_path / "pages" / f"{name}.html") for name in ("other", "s")
    ]
    assert finished("report", "s", *place, cwd=tmp_path).returncode == 0
    assert (tmp_path / "s.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_two_sessions_have_pages_of_the_same_name() -> None:
    """Signs that no file name may have are left out, and a name that lost some gets a suffix."""
    names = ["s", "a/b", "a-b", "a b", "../../etc/passwd", "", "x" * 200, "x" * 201]
    pages = [file_name(name) for name in names]
    assert len(set(pages)) == len(names)
    assert pages[:3:2] == ["s.html", "a-b.html"]
    assert all(Path(page).name == page and len(page) < 120 for page in pages)


@pytest.mark.parametrize("words", [(), ("s", "--all")])
def test_a_page_needs_a_session_or_all(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(*words, *place_of(tmp_path / "memory.db"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Name a session, or use --all" in ended.stderr
