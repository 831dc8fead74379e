"""What docs/migrating.md offers to those who come from another server works."""

import io
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

PAGE = Path(__file__).parents[1] / "docs" / "migrating.md"
COLUMNS = "content, category, tags, created_at, access_count"
NOTES = [
    ("Eager load roles.", "bug-fix", '["laravel", "n+1"]', "2025-11-01T10:00:00+00:00", 3),
    ("Deploy with a tag.", "tool-usage", "[]", "2025-11-02T10:00:00", 0),
]


def test_the_script_on_the_page_converts_every_note_of_the_tagged_memory_server(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "notes.db") as old:
        old.execute(
            "create table memory_metadata (id integer primary key, content, category, tags, created_at, access_count)"
        )
        old.executemany("insert into memory_metadata values (null, ?, ?, ?, ?, ?)", NOTES)
    old.close()
    script = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert script
    ran = subprocess.run([sys.executable, "-c", script[1], tmp_path / "notes.db"], capture_output=True, check=True)
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy")) as store:
        store.import_memories(io.BytesIO(ran.stdout))
        notes = store.tagged.list_recent().results
    assert [(note.content, note.category, note.tags, note.access_count) for note in reversed(notes)] == [
        ("Eager load roles.", "bug-fix", ["laravel", "n+1"], 3),
        ("Deploy with a tag.", "tool-usage", [], 0),
    ]
    assert notes[0].created_at.startswith("2025-11-02T10:00:00")
