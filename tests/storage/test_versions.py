"""The version of a file."""

from pathlib import Path

import pytest

from memory_files import change, create_file, examine, said
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.backup import back_up
from vector_memory.store import SessionMemoryStore

DEVELOPMENT = "update schema_migrations set version = version - 15"


def test_a_file_of_a_development_version_is_refused_with_what_to_do_and_unchanged(path: Path) -> None:
    create_file(path)
    change(path, DEVELOPMENT)
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="Run `vector-memory export` with that version"), SessionMemoryStore(path):
        pass
    with pytest.raises(DatabaseError, match="Run `vector-memory export` with that version"):
        back_up(path, path.with_name("copy.db"))
    assert "Run `vector-memory export` with that version" in said(examine(path), "schema")
    assert path.read_bytes() == before
