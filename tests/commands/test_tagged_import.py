"""`import` of a database of the tagged memory server: data/original/README.md says how it was made."""

from pathlib import Path

import apsw
import pytest

from commands.conftest import TOY, Run
from inside import database_of
from original_files import TAGGED, unpacked
from vector_memory.store import SessionMemoryStore

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
