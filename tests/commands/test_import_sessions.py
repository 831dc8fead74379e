"""import-sessions as a command; what it stores is tested in tests/transcripts."""

import shutil
from pathlib import Path

import pytest

from commands.conftest import Run

SHOP = "/home/ann/shop"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of Claude Code with real transcripts; there is none of Codex."""
    shutil.copytree(Path(__file__).parents[1] / "data/transcripts" / "claude", tmp_path / "claude")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    return tmp_path / "claude"


@pytest.mark.usefixtures("home")
def test_the_command_says_what_it_stores_and_then_that_it_is_stored(run: Run) -> None:
    """A dry run says the same in advance."""
    what = "11 memories of 2 sessions: 7 prompts, 1 answer, 1 report, 2 summaries; 0 already stored."
    assert (
        run("import-sessions", SHOP, "--dry-run").out
        == f"Would store {what}\nWould replace 1 secret or private part.\n"
    )
    assert run("import-sessions", SHOP).out == f"Stored {what}\nReplaced 1 secret or private part.\n"
    assert run("import-sessions", "--all").out == "Stored 0 memories; 11 already stored.\n"
    assert run("stats", "--json").json["without_vectors"] == 0


@pytest.mark.usefixtures("home")
def test_what_was_deleted_is_left_out_and_that_is_said(run: Run) -> None:
    """Until somebody wants it again."""
    run("import-sessions", SHOP)
    run("delete", "1", "--yes")
    left_out = "Stored 0 memories; 10 already stored.\n1 was deleted earlier; --again imports it.\n"
    assert run("import-sessions", SHOP).out == left_out
    run("cleanup", "--days", "0", "--yes")
    assert "11 were deleted earlier; --again imports them.\n" in run("import-sessions", SHOP).out
    assert run("import-sessions", SHOP, "--again").out.startswith("Stored 11 memories")


@pytest.mark.usefixtures("home")
def test_json_has_every_number(run: Run) -> None:
    """One object."""
    assert run("import-sessions", "--all", "--client", "claude", "--json").json == {
        "success": True,
        "dry_run": False,
        "transcripts": 3,
        "sessions": 2,
        "stored": 11,
        "kinds": {"input_prompt": 7, "working_memory": 1, "report": 1, "session_context": 2},
        "skipped": 0,
        "deleted_earlier": 0,
        "redacted": 1,
        "nul_characters": 0,
        "unread": [],
        "without_vectors": 0,
    }


def test_a_transcript_that_is_not_as_expected_is_named_with_its_line(home: Path, run: Run) -> None:
    """And the command fails, after storing the others."""
    bad = home / "projects/-home-ann-shop/bad.jsonl"
    bad.write_text("[]\n")
    ended = run("import-sessions", SHOP)
    assert ended.code == 1
    first, second, *_ = ended.out.splitlines()
    assert first == f"Not stored: {bad}: Line 1: expected an object with a `type`."
    assert second.startswith("Stored 11 memories")


@pytest.mark.usefixtures("home")
def test_the_folder_is_the_project_and_secrets_are_replaced_by_default(tmp_path: Path, run: Run) -> None:
    """This folder has no sessions; --no-redact stores everything as it was."""
    assert run("import-sessions").out == "No past sessions were found; --all looks in all projects.\n"
    assert "Replaced" not in run("import-sessions", SHOP, "--no-redact").out
    assert b"Nothing else." in (tmp_path / "memory.db").read_bytes()


@pytest.mark.usefixtures("home")
def test_a_folder_and_all_contradict_each_other(run: Run) -> None:
    """A usage error."""
    ended = run("import-sessions", SHOP, "--all")
    assert ended.code == 2
    assert "omit the folder, or --all" in ended.err
