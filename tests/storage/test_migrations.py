"""The version of a file, and what happens when a newer release upgrades it while this one has it open."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from faults.soundness import connected
from memory_files import SETTINGS, be_of_first_version, change, create_file, examine, said
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.backup import back_up
from vector_memory.storage.sqlite.migrations import FIRST_VERSION, newest_version
from vector_memory.store import SessionMemoryStore

DEVELOPMENT = "update schema_migrations set version = version - 15"


def versions(path: Path) -> list[int]:
    """Return the versions that a file has had."""
    with closing(apsw.Connection(str(path))) as connection:
        return [version for (version,) in connection.execute("select version from schema_migrations order by version")]


def test_a_file_of_the_first_version_is_upgraded_when_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        be_of_first_version(patch)
        create_file(path)
    assert versions(path) == [FIRST_VERSION]
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# One\n\nThe first.", session_id="s", agent_id="a")
    assert versions(path) == list(range(FIRST_VERSION, newest_version() + 1))
    assert examine(path).healthy


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


def upgraded(path: Path, sql: str = "") -> None:
    """Upgrade a file as a later release might."""
    with connected(path) as connection:
        connection.execute(f"insert into schema_migrations values (999, 'from the future', '2099'); {sql}")


def test_after_an_upgrade_by_a_newer_release_nothing_is_written_and_reading_continues(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# One\n\nThe first.", session_id="s", agent_id="a")
        upgraded(path)
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.store_memory("report", "# Two\n\nThe second.", session_id="s", agent_id="a")
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.delete_memory(1)
        found = store.search_chunks("first", Scope(MemoryKind.REPORT), Page(limit=1)).results
        assert [chunk.memory_id for chunk in found] == [1]


def test_data_that_cannot_be_read_after_an_upgrade_is_not_reported_as_damage(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# One\n\nThe first.", session_id="s", agent_id="a")
        upgraded(path, "alter table keyword_postings rename to terms")
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.search_chunks("first", Scope(MemoryKind.REPORT), Page(limit=1))
