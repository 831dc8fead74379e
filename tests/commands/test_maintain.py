"""delete, backfill, reembed, backup, restore, fetch-model with --json; and completion."""

import subprocess
import sys
from pathlib import Path

import pytest

import vector_memory.embedding.weights
from commands.conftest import Run, answered
from engines import contents, execute, place_of
from memory_files import bytes_of
from tiny_models import Tiny
from vector_memory.cli.commands import curate
from vector_memory.store import SessionMemoryStore


def test_delete_removes_a_memory_for_good(memory: Path, run: Run) -> None:
    """The others stay; a second time there is nothing to delete."""
    assert run("delete", 2, "--yes") == (0, 'Deleted report 2, "Outage", with all its chunks.\n', "")
    assert len(contents(memory)) == 4
    assert run("delete", 2, "--yes").code == 1
    assert run("delete", 3, "-y", "--json").json["memory_id"] == 3


def test_a_session_is_deleted_whole(memory: Path, run: Run) -> None:
    """A dry run says what would be deleted, and changes nothing."""
    before = bytes_of(memory.parent)
    assert run("delete", "--session", "outage", "--dry-run").out == "Would delete 3 memories of session outage.\n"
    assert run("delete", 2, 4, "--dry-run").out == "Would delete 2 memories.\n"
    assert bytes_of(memory.parent) == before
    assert run("delete", "--session", "outage", "--yes", "--json").json["memory_ids"] == [1, 2, 3]
    assert contents(memory) == ["# Other\n\nNothing of that.\n", "A lease is a lock that ends by itself."]
    for words in ([], [4, "--session", "other"]):
        assert run("delete", *words).err == (
            "vector-memory: Name what to delete: ids of memories, or a session with --session.\n"
        )


def test_a_cleanup_deletes_what_is_old(memory: Path, run: Run) -> None:
    """Of all kinds."""
    with SessionMemoryStore(memory) as store:
        execute(store, "update session_memories set created_at = '2020-01-01T00:00:00+00:00' where id in (1, 5)")
    assert run("cleanup", "--dry-run").out == "Would delete 2 memories older than 90 days.\n"
    assert len(contents(memory)) == 5
    assert run("cleanup", "--days", "30", "--yes", "--json").json["memories_deleted"] == 2
    assert run("cleanup").out == "Deleted 0 memories older than 90 days.\n"
    assert len(contents(memory)) == 3


def test_policies_delete_what_is_older_than_they_permit_but_nothing_that_is_pinned(memory: Path, run: Run) -> None:
    """A dry run says what each rule names, and the strictest rule counts."""
    with SessionMemoryStore(memory) as store:
        execute(store, "update session_memories set created_at = '2020-01-01T00:00:00+00:00'")
        number = execute(store, "select min(id) from session_memories where session_id = 'outage'")[0][0]
    assert run("cleanup", "--policy").err.startswith("vector-memory: There is no policy: set VECTOR_MEMORY_RETENTION")
    assert run("cleanup", "--policy", "--days", "3").code == 2
    assert run("cleanup", "--policy", "--retention", "outages=3d").code == 2
    assert run("pin", number).out == "Pinned 1 memory.\n"
    rules = ("--retention", "session:out*=30d; agent:nobody=1d; input_prompt=9999d")
    said = "Would delete 2 memories older than policies permit.\n  session:out*=30d: 2 memories\n"
    assert run("cleanup", "--policy", "--dry-run", *rules).out.startswith(said)
    assert len(contents(memory)) == 5
    answer = run("cleanup", "--policy", "--yes", "--json", *rules).json
    assert (answer["memories_deleted"], answer["by_rule"]["agent:nobody=1d"]) == (2, 0)
    assert len(contents(memory)) == 3
    assert run("unpin", number, 10**6).code == 1
    assert run("unpin", number, "--json").json["memory_ids"] == [number]
    assert run("cleanup", "--policy", "--yes", *rules).out.startswith("Deleted 1 memory")


def test_policies_leave_what_supersedes_a_memory_that_stays_and_a_dry_run_says_so(memory: Path, run: Run) -> None:
    with SessionMemoryStore(memory) as store:
        newer = store.store_memory("working_memory", "Moved.", session_id="x", supersedes=[1]).memory_id
        execute(store, "update session_memories set created_at = '2020-01-01T00:00:00+00:00'")
    rules = ("--policy", "--retention", "working_memory=30d")
    said = ["Would delete 0 memories older than policies permit.", "Kept 1 old memory: it supersedes or corrects one"]
    out = run("cleanup", "--dry-run", *rules).out.splitlines()
    assert [line.startswith(part) for line, part in zip(out, said, strict=False)] == [True, True]
    assert out[2] == "  working_memory=30d: 0 memories"
    assert run("cleanup", *rules, "--json").json["memories_kept"] == 1
    assert run("show", newer).code == 0
    answer = run("cleanup", "--policy", "--retention", "working_memory=30d; session:*=30d", "--yes", "--json").json
    assert (answer["memories_kept"], answer["by_rule"]["working_memory=30d"]) == (0, 1)
    assert run("show", newer).code == 1


@pytest.mark.usefixtures("memory")
def test_tags_are_added_and_removed_and_others_stay(run: Run) -> None:
    before = run("show", 2, "--json").json["tags"]
    tagged = run("tag", 2, 3, "--add", "ledger", "--add", "job", "--json").json["memories"]
    assert tagged == [{"memory_id": 2, "tags": [*before, "ledger", "job"]}, {"memory_id": 3, "tags": ["ledger", "job"]}]
    assert run("tag", 2, "--remove", before[0], "--add", "job").out == "2: ledger, job\n"
    assert run("show", 2, "--json").json["access_count"] == 0
    assert run("tag", 2).code == 2
    assert run("tag", "--add", "x").code == run("tag", 2, "--kind", "report", "--add", "x").code == 2
    chosen = run("list", "--agent", "explorer", "--json").json["entries"]
    assert chosen
    assert len(run("tag", "--agent", "explorer", "--add", "x", "--json").json["memories"]) == len(chosen)
    assert len(run("pin", "--tags", "x", "--json").json["memory_ids"]) == len(chosen)
    assert run("tag", 99, "--add", "x").code == 1


@pytest.mark.usefixtures("memory")
def test_filters_that_choose_more_than_is_changed_at_once_change_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curate, "MAX_MOMENTS", 1)
    answer = run("tag", "--session", "outage", "--add", "x")
    assert (answer.code, "narrow them to 1" in answer.err) == (2, True)
    assert run("list", "--tags", "x", "--json").json["entries"] == []


@pytest.mark.usefixtures("memory")
def test_a_memory_is_edited_in_place(run: Run) -> None:
    answer = run("edit", 2, "--title", "Lock in the ledger", "--tags", "ledger", "--json").json
    assert (answer["title"], answer["tags"]) == ("Lock in the ledger", ["ledger"])
    assert "Lock in the ledger" in run("show", 2).out
    assert run("edit", 2).err == ("vector-memory: There is nothing to change: send a title, a description or tags.\n")


def test_ingested_files_expire(memory: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "note.md").write_text("# Note\n\nFor a day.\n")
    assert run("ingest", tmp_path / "notes", "--ttl-days", 0).err.startswith("vector-memory: ttl_days must be")
    assert run("ingest", tmp_path / "notes", "--expires-at", "2999").code == 0
    with SessionMemoryStore(memory) as store:
        assert execute(store, "select expires_at from memory_lifecycle") == [("2999-12-31T23:59:59.999999+00:00",)]


@pytest.mark.parametrize("words", [["delete", 2], ["delete", "--session", "outage"], ["cleanup"]], ids=str)
@pytest.mark.parametrize("said", [b"", b"y\n"])
def test_without_a_terminal_to_ask_in_nothing_is_deleted(
    words: list[object], said: bytes, memory: Path, run: Run
) -> None:
    """A pipe that says yes is none. --yes deletes, and --dry-run needs no answer."""
    with SessionMemoryStore(memory) as store:
        execute(store, "update session_memories set created_at = '2020-01-01T00:00:00+00:00'")
    answer = run(*words, stdin=said)
    assert (answer.code, answer.out) == (2, "")
    assert "add --yes to make the change, or --dry-run" in answer.err
    assert run(*words, "--dry-run").code == 0
    assert len(contents(memory)) == 5
    assert run(*words, "--yes").code == 0
    assert len(contents(memory)) < 5


@pytest.mark.parametrize(("answer", "left"), [(b"\n", 5), (b"n\n", 5), (b"y\n", 2)])
def test_in_a_terminal_deleting_asks_first(answer: bytes, left: int, memory: Path) -> None:
    """Whatever is not yes deletes nothing."""
    code, said, asked = answered(answer, "delete", "--session", "outage", *place_of(memory))
    assert b"Delete 3 memories of session outage? This cannot be undone." in asked
    assert len(contents(memory)) == left
    assert (code, said) == (
        (0, b"Deleted 3 memories of session outage.\n") if left == 2 else (1, b"Nothing was deleted.\n")
    )


@pytest.mark.sqlite("backup and restore are for files")
def test_upkeep_answers_in_json(memory: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command prints one object that says what it did."""
    assert run("backfill", "--json").json["memories_remaining"] == 0
    assert run("reembed", "--json").json["success"]
    backup = run("backup", "copy.db", "--json").json
    assert (backup["memories"], backup["file"]) == (5, str(tmp_path / "copy.db"))
    restored = run("restore", "copy.db", "--overwrite", "--json").json
    assert (restored["memories"], restored["kept"]) == (5, f"{memory}.before-restore")
    assert run("doctor", "--json").json["healthy"]
    monkeypatch.setattr(vector_memory.embedding.weights, "download_model", lambda _say: tmp_path)
    assert run("fetch-model", "--json").json == {"success": True, "folder": str(tmp_path)}


def test_models_lists_the_known_ones_where_they_are_and_which_is_in_use(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    listed = {row["name"]: row for row in run("models", "--json").json["models"]}
    assert listed["all-MiniLM-L6-v2"]["installed_in"] == "the package vector_memory_model"
    assert listed["bge-small-en-v1.5"]["installed_in"] is None
    assert "hf download BAAI/bge-small-en-v1.5" in listed["bge-small-en-v1.5"]["how_to_install"]
    shown = run("models", "--embedding-model", "gte-small").out
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("*")] == ["gte-small"]
    assert "gte-small is in use and not installed." in shown


def test_models_calls_nothing_installed_that_cannot_be_used(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped name, without the library that runs unknown models; and a folder without the model."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    mistyped = run("models", "--embedding-model", "all-minilm").out
    assert [line.split()[1:3] for line in mistyped.splitlines() if line.startswith("*")] == [["all-minilm", "no"]]
    assert "all-minilm is in use and not installed. Correct the name" in " ".join(mistyped.split())
    flags = ("--embedding-model", "gte-small", "--embedding-model-path", str(tmp_path))
    [empty] = [row for row in run("models", *flags, "--json").json["models"] if row["in_use"]]
    assert empty["installed_in"] is None
    assert "does not contain model.onnx" in empty["how_to_install"]
    assert run("models", "--embedding-model", "toy", "--json").json["models"][-1]["installed_in"] == "this server"


@pytest.mark.usefixtures("memory")
def test_models_lists_a_model_of_the_users_own_and_reembed_changes_over_to_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    flags = ("--embedding-model", str(Tiny(tmp_path / "own").folder), "--embedding-dim", "64")
    assert run("models", *flags, "--json").json["models"][-1]["name"] == "tiny"
    assert "The vectors are from tiny@" in run("reembed", *flags).out
    assert "by words only" not in str(run("search", "lease", *flags, "--json").json.get("message"))


def test_invalid_arguments_are_reported_in_json_too(run: Run) -> None:
    """An error has the same shape, whatever it is."""
    ended = run("sessions", "--lmit", "3", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended._replace(out=ended.err).json["error"] == "ValidationError"


@pytest.mark.sqlite("opens no memory")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(shell: str, run: Run) -> None:
    """The printed script names them, and bash accepts it."""
    script = run("completion", shell).out
    for word in ("ingest", "timeline", "grain", "report_observation"):
        assert word in script
    if shell == "bash":
        ended = subprocess.run(["bash", "-eu"], input=script, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
