"""A file of the original server is upgraded in place."""

import shutil
from pathlib import Path

import apsw
import pytest

from vector_memory.domain import Scope, Span
from vector_memory.storage.sqlite.chunks import chunks_of
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.legacy import locate
from vector_memory.storage.sqlite.memories import count_unindexed, get_memory
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.word_ranking import rank

ORIGINAL = Path(__file__).parent.parent / "data" / "original.db"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORIGINAL, tmp_path / "memory.db"))


@pytest.fixture
def database(path: Path):
    database = Database(path, dimensions=384)
    yield database
    database.close()


def test_every_memory_keeps_its_id_and_its_text(path: Path) -> None:
    source = apsw.Connection(str(ORIGINAL))
    before = source.execute("select id, content from session_memories order by id").fetchall()
    source.close()
    database = Database(path, dimensions=384)
    with database.read() as connection:
        assert connection.execute("select id, content from session_memories order by id").fetchall() == before
    database.close()


def test_kinds_iterations_sessions_and_times_are_normalized(database: Database) -> None:
    with database.read() as connection:
        memories = [get_memory(connection, number) for number in range(1, 7)]
    shown = [(memory.memory_type, memory.session_id, memory.session_iter) for memory in memories if memory]
    assert shown == [
        ("report", "outage", 1),
        ("report_observation", "outage", 1),
        ("working_memory", "outage", 2),
        ("session_context", "outage", 2),
        ("input_prompt", "outage", 2),
        ("knowledge_base", None, 1),
    ]
    assert memories[0] is not None
    assert memories[0].created_at == "2025-05-13T09:30:00.000000+00:00"


def test_chunks_found_in_their_document_keep_their_ids_and_get_offsets(database: Database) -> None:
    with database.read() as connection:
        memory = get_memory(connection, 1)
        stored = chunks_of(connection, 1)
    assert memory is not None
    assert [part.id for part in stored] == [1, 2, 3]
    assert [memory.content[part.chunk.start : part.chunk.end] for part in stored] == [
        part.chunk.text for part in stored
    ]
    assert stored[1].chunk.headings == ("# Outage of 12 May", "## Cause")


def test_chunks_that_lost_characters_are_dropped_and_cut_again(database: Database) -> None:
    with database.read() as connection:
        assert chunks_of(connection, 3) == []
        assert count_unindexed(connection) == 6


def test_the_old_vectors_are_gone_and_the_keywords_are_indexed(database: Database) -> None:
    with database.read() as connection:
        assert fetch_value(connection, "select count(*) from vec_chunk_search") == 0
        for word, found in {"ledger": (2, 1), "noon": (2, 2)}.items():
            assert [match[:2] for match in rank(connection, Scope(), [word]).best(10).matches] == [found]


def test_the_id_of_a_deleted_memory_is_never_reused(database: Database) -> None:
    with database.write() as connection:
        connection.execute(
            """
            insert into session_memories
                (memory_type, agent_id, content, content_hash, created_at, updated_at, accessed_at)
            values ('report', 'a', 'text', 'hash', '2026', '2026', '2026')
            """
        )
        assert connection.last_insert_rowid() == 41


def test_an_unchanged_copy_of_the_file_is_kept(path: Path, database: Database) -> None:
    del database
    copy = apsw.Connection(str(path) + ".before-upgrade")
    assert "reports" in fetch_column(copy, "select memory_type from session_memories")
    assert fetch_value(copy, "select count(*) from memory_chunks") == 7
    copy.close()


def test_upgrading_twice_is_the_same_as_once(path: Path) -> None:
    for _ in range(2):
        Database(path, dimensions=384).close()
    assert [file.name for file in path.parent.glob("*.before-upgrade*")] == ["memory.db.before-upgrade"]


def test_a_failed_upgrade_leaves_the_file_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: apsw.Connection) -> None:
        raise apsw.FullError

    monkeypatch.setattr("vector_memory.storage.sqlite.legacy.carry_over_sequences", fail)
    with pytest.raises(Exception, match="full"):
        Database(path, dimensions=384)
    connection = apsw.Connection(str(path))
    assert "reports" in fetch_column(connection, "select memory_type from session_memories")
    connection.close()


def test_chunks_are_located_only_if_they_cover_the_document_in_order() -> None:
    assert locate("one two three", ["one two", "two three"]) == [Span(0, 7), Span(4, 13)]
    assert locate("one two three", ["one", "three"]) == []
    assert locate("one two three", ["one two"]) == []
    assert locate("one two three", ["three", "one two"]) == []
    assert locate("aa", ["a", "a"]) == [Span(0, 1), Span(1, 2)]


def test_tags_that_are_not_strings_become_strings(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("update session_memories set tags = '[1, \"two\", null]' where id = 1")
    connection.execute("update session_memories set tags = 'no json' where id = 2")
    connection.close()
    database = Database(path, dimensions=384)
    with database.read() as reader:
        tags = [memory.tags for number in (1, 2) if (memory := get_memory(reader, number))]
    database.close()
    assert tags == [["1", "two", "null"], []]
