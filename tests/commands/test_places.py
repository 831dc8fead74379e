"""Where commands find a memory, create one, or say why they cannot; reading needs no right to write."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from commands.conftest import Run
from forked import finished
from memory_files import bytes_of, contents
from servers import Server

CREATING = [["ingest", "notes.md", "--session", "s"], ["import", "x.jsonl"], ["restore", "x.db"], ["doctor"], ["serve"]]


@pytest.mark.parametrize("words", CREATING, ids=lambda words: words[0])
@pytest.mark.parametrize("flag", ["--database-path", "--working-dir"])
def test_a_mistyped_folder_is_refused_and_not_created(words: list[str], flag: str, tmp_path: Path, run: Run) -> None:
    """By every command that could create a memory there."""
    (tmp_path / "notes.md").write_text("# A note")
    typo = tmp_path / "typo"
    ended = run(*words, flag, typo / "memory.db" if flag == "--database-path" else typo)
    sentence = f"vector-memory: The folder {typo} does not exist: check the path, or create the folder first.\n"
    assert ended == (2, "", sentence)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.md"]


def test_a_new_memory_is_created_with_the_first_text(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the default place, with its folder; a run that stores nothing creates nothing."""
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH")
    (tmp_path / "empty.md").write_text(" ")
    assert run("ingest", "empty.md", "--session", "s").code == 1
    assert not (tmp_path / "memory").exists()
    (tmp_path / "note.md").write_text("# A note")
    assert run("ingest", "note.md", "--session", "s").code == 0
    assert contents(tmp_path / "memory" / "agent_session_memory.db") == ["# A note"]


def test_a_server_creates_nothing_before_the_first_store_and_says_what_it_created(tmp_path: Path) -> None:
    """Reading, searching and deleting find an empty memory."""
    with Server(tmp_path, VECTOR_MEMORY_LOG_LEVEL="INFO") as server:
        server.hello()
        assert server.call("search_reports_specific_chunks", query="anything")["total_results"] == 0
        assert server.call("delete_memory", memory_id=1)["error"] == "ValidationError"
        assert server.call("list_sessions")["total_sessions"] == 0
        assert not list(tmp_path.iterdir())
        server.call("store_working_memory", content="Found.", agent_id="a", session_id="s", session_iter=1)
        assert server.path.exists()
        server.end("SIGTERM")
        said = server.errors().decode()
    assert f"Created the database {server.path}" in said


def test_an_empty_home_is_none_so_nothing_is_looked_for_in_the_root_folder() -> None:
    """The user's own is looked up instead, as it is without the variable."""
    script = "import sys; sys.argv[1:] = ['--help']; from vector_memory.cli.main import main; main(); import pathlib;"
    script += "print(pathlib.Path('~').expanduser())"
    command = [sys.executable, "-P", "-c", script]
    empty, absent = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
        for env in ({"HOME": ""}, {})
    )
    assert empty == absent != "/"


NO_HOME = """
import os, pwd, sys

def unknown(_uid):
    raise KeyError

pwd.getpwuid = unknown
stat = os.stat

def closed(path, **options):
    if str(path).startswith("/closed"):
        raise PermissionError(13, "Permission denied")
    return stat(path, **options)

os.stat = closed
from vector_memory.cli.main import main
main()
"""
"""The command, run as a user whom the system does not know, and who may not enter /closed: usual in a container."""

NEEDED = {
    "serve --toolsets files": "--db-dir",
    "install claude": "CLAUDE_CONFIG_DIR",
    "install codex": "CODEX_HOME",
    "install cursor": "--project",
    "install desktop": "XDG_CONFIG_HOME",
    "uninstall claude": "CLAUDE_CONFIG_DIR",
    "import-sessions": "CLAUDE_CONFIG_DIR",
    "fetch-model": "HF_HOME",
    "search x --database-path ~/memory.db": "--database-path",
}


@pytest.mark.parametrize("home", [{}, *({"HOME": home} for home in ("", "relative", "/closed/home"))], ids=str)
def test_without_a_home_a_server_stores_and_finds(home: dict[str, str], tmp_path: Path) -> None:
    """Nor are the model and the client's commands in need of one, nor what is imported first."""
    start = ["-c", NO_HOME] if home else [sys.executable, "-P", "-c", NO_HOME]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.delenv(name, raising=False)
        with Server(tmp_path, start=start, **home) as server:
            stored = server.hello().call("store_report", agent_id="a", session_id="s", content="A cold cache.")
            assert stored["success"]
            assert server.call("search_reports_specific_chunks", query="cold cache")["results"]
            server.end("SIGTERM")
            assert (server.process.returncode, server.errors()) == (0, b"")
    assert not (tmp_path / "relative").exists()
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("words", [*NEEDED, "models", "ingest ~nobody.md", "install cursor --project --dry-run"])
def test_a_command_that_needs_a_home_names_what_to_give_instead(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """And others go on without one, as does a file whose name begins like a user's home."""

    monkeypatch.setattr("pwd.getpwuid", Mock(side_effect=KeyError))
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "~nobody.md").write_text("# A note")
    ended = run(*words.split())
    assert (ended.code != 0, NEEDED.get(words, "") in ended.err) == (words in NEEDED, True)
    assert ("home" in ended.err) == (words in NEEDED)


READING = [
    ["search", "lock"],
    ["show", "2"],
    ["stats"],
    ["sessions"],
    ["timeline", "outage"],
    ["export", "outage"],
    ["doctor"],
]


@pytest.fixture
def place(memory: Path) -> Iterator[Path]:
    """The memory in a folder of mode 0555, as a file of mode 0444, where others may enter the folders above.

    Not in a folder of pytest: each start of it closes these to others.
    """
    with tempfile.TemporaryDirectory(prefix="shared") as folder:
        path = Path(folder, "memory.db")
        shutil.copy(memory, path)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        yield path


def run(place: Path, copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return finished("-m", "nobody", place, copy, *words, env=os.environ | {"TIKTOKEN_CACHE_DIR": ""})


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_what_only_reads_needs_no_right_to_write(words: list[str], place: Path, memory: Path) -> None:
    """It answers as elsewhere, and leaves the folder as it is."""
    before = bytes_of(place.parent)
    ended = run(place, memory, *words)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr or words == ["doctor"]
    assert bytes_of(place.parent) == before
    if words == ["doctor"]:
        told = " ".join(ended.stdout.split())
        assert f"memory.db (444) and its folder {place.parent.name} (555) have to be writable" in told


def test_what_writes_says_why_it_cannot(place: Path, memory: Path) -> None:
    ended = run(place, memory, "delete", "1", "--yes")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "vector-memory: The database cannot be written: check the permissions of its file and folder. "
        f"The file is {place}.\n"
    )


def test_a_place_that_cannot_be_entered_is_named(place: Path, memory: Path) -> None:
    place.parent.chmod(0)
    ended = run(place, memory, "search", "lock")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"vector-memory: No permission to open {place}: check the permissions of its folders.\n"
