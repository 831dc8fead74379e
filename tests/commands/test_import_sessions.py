"""Imports of past sessions, and of tagged notes."""

import shutil
from pathlib import Path

import apsw
import pytest

from commands.conftest import TOY, Run
from inside import database_of
from original_files import TAGGED, unpacked
from transcripts.conftest import HOMES
from vector_memory.store import SessionMemoryStore

SHOP = "/home/ann/shop"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of Claude Code with real transcripts; there is none of another."""
    shutil.copytree(Path(__file__).parents[1] / "data/transcripts" / "claude", tmp_path / "claude")
    for variable, name in HOMES.items():
        monkeypatch.setenv(variable, str(tmp_path / name))
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
        "unknown": {},
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


NOTES = [
    ("Eager load roles: the N+1 came from a missing include.", "bug-fix", ["laravel", "performance"], 1),
    ("Deploy with a tag; CI builds the image.", "tool-usage", ["ci", "module:deploy"], 1),
    ("Use a lease instead of a lock.", "architecture", ["locks"], 0),
    ("The vault token expires at noon. Größe: naïve café 数据库.", "security", ["vault"], 0),
]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "old", TAGGED)


def change(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def test_its_notes_keep_their_contents_categories_tags_times_and_read_counts(
    notes: Path, tmp_path: Path, run: Run
) -> None:
    """They are found by meaning at once, and the old file is only read."""
    before = notes.read_bytes()
    assert run("import", notes) == (0, "Added 4 memories; 0 already existed.\n", "")
    assert notes.read_bytes() == before
    with SessionMemoryStore(tmp_path / "memory.db", TOY) as store:
        stored = sorted(store.tagged.list_recent().results, key=lambda note: note.id)
        assert [(note.content, note.category, note.tags, note.access_count) for note in stored] == NOTES
        with database_of(store).read() as reader:
            times = reader.execute("select created_at, accessed_at from session_memories where id = 1").fetchall()
        assert times == [("2026-11-22T13:53:49.037382+00:00", "2026-11-22T13:53:49.050785+00:00")]
        assert store.get_memory_stats().without_vectors == 0
        assert store.tagged.search("lease", tags=["locks"]).results[0].content == NOTES[2][0]


def test_repeating_it_adds_only_what_is_new(notes: Path, run: Run) -> None:
    """Also while the old server has the file open."""
    run("import", notes)
    server = apsw.Connection(str(notes))
    server.execute(
        "insert into memory_metadata (content_hash, content, category, tags, created_at, updated_at) "
        "values ('x', 'A new note.', 'other', '[]', '2026-01-01T10:00:00+00:00', '')"
    )
    assert run("import", notes).out == "Added 1 memory; 4 already existed.\n"
    server.close()
    found = run("import", notes, "--json").json
    assert (found["added"], found["skipped"]) == (0, 5)


def test_a_note_of_an_unknown_category_becomes_another_and_its_tags_lower_case(
    notes: Path, tmp_path: Path, run: Run
) -> None:
    """A time without a zone is taken as UTC."""
    change(
        notes,
        "update memory_metadata set category = 'ours', tags = '[\"Upper  Case\", \"upper case\", 7]', "
        "created_at = '2025-01-01T10:00:00' where id = 1",
    )
    run("import", notes)
    with SessionMemoryStore(tmp_path / "memory.db", TOY) as store:
        note = min(store.tagged.list_recent().results, key=lambda note: note.created_at)
    assert (note.category, note.tags) == ("other", ["upper case", "7"])
    assert note.created_at == "2025-01-01T10:00:00Z"


@pytest.mark.parametrize("name", ["another program's", "a memory"])
def test_any_other_database_is_refused_unchanged(name: str, tmp_path: Path, run: Run, memory: Path) -> None:
    """One sentence says what to do."""
    path = memory
    if name != "a memory":
        path = tmp_path / "songs.db"
        change(path, "create table songs (title text)")
    before = path.read_bytes()
    ended = run("import", path, "--database-path", tmp_path / "new.db")
    assert (ended.code, ended.out) == (1, "")
    assert "The database is not one of the tagged memory server" in ended.err
    assert path.read_bytes() == before
    assert not (tmp_path / "new.db").exists()
