"""Files of the original server are upgraded with all they hold; those of development versions are refused."""

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import apsw
import pytest

from inside import database_of
from memory_files import change, create_file, examine, said
from original_files import EARLY, LATE, texts_in, unpacked
from vector_memory.domain import Chunk, Page, Scope, SearchMode
from vector_memory.errors import DatabaseError
from vector_memory.settings import Settings
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backup import back_up
from vector_memory.upkeep.copying import copy_all

NO_MODEL = Settings(embedding_model="no such model")
FACTS = {
    "quokka": ("report", 1),
    "marzipan": ("working_memory", 3),
    "xylophone": ("knowledge_base", 7),
    "walrus": ("report", 8),
}
"""Words at the ends of the documents, and the documents that they are in."""


@pytest.fixture(params=[EARLY, LATE])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(tmp_path, request.param)


def found_by_words(store: SessionMemoryStore) -> dict[str, list[tuple[str, int]]]:
    """Return which documents the words are found in."""
    return {
        word: [
            (kind, result.memory_id)
            for result in store.search_chunks(word, Scope(kind), Page(limit=5), mode=SearchMode.KEYWORD).results
        ]
        for word, (kind, _) in FACTS.items()
    }


def everything() -> dict[str, list[tuple[str, int]]]:
    return {word: [place] for word, place in FACTS.items()}


def without_cutting(path: Path) -> None:
    """Upgrade a file as a process does that ends before any document is cut."""
    Database(path, dimensions=384).close()


def upgraded_after(path: Path, sql: str, memory_ids: Sequence[int]) -> list[Memory]:
    """Change a file of the original server, and return memories of it as they are after the upgrade."""
    change(path, sql)
    with closing(Database(path, dimensions=384)) as database, database.read() as connection:
        return [*SqliteReader(connection).memories.get_all(memory_ids).values()]


def kinds_in(path: Path) -> list[str]:
    with closing(apsw.Connection(str(path))) as connection:
        return fetch_column(connection, "select memory_type from session_memories")


@pytest.mark.parametrize("read_only", [False, True])
def test_every_document_is_found_by_its_words_right_after_the_upgrade_without_a_model(
    path: Path, read_only: bool
) -> None:
    with SessionMemoryStore(path, NO_MODEL, read_only=read_only) as store:
        assert found_by_words(store) == everything()
        assert store.get_memory_stats().without_vectors == 8


def test_an_answer_after_the_upgrade_says_that_vectors_are_still_to_come(path: Path) -> None:
    with SessionMemoryStore(path, Settings(embedding_model="toy")) as store:
        message = store.search_chunks("quokka", Scope("report")).message or ""
    assert "2 memories in this scope still lack vectors and may be found by words only" in message
    assert "a server computes them in the background" in message


def test_what_one_process_has_not_cut_the_next_one_cuts(path: Path) -> None:
    without_cutting(path)
    with SessionMemoryStore(path, NO_MODEL) as store:
        assert found_by_words(store) == everything()


def test_a_document_that_cannot_be_cut_does_not_keep_the_file_from_being_opened(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(content: str) -> list[Chunk]:
        raise ValueError(content)

    Database(path, dimensions=384, cut=fail).close()
    assert [record.getMessage() for record in caplog.records] == [
        f"Memory {number} could not be cut into chunks: ValueError" for number in (1, 3, 7, 8)
    ]
    with SessionMemoryStore(path, NO_MODEL) as store:
        assert found_by_words(store) == everything()


def test_chunks_are_slices_of_their_document_with_its_headings(path: Path) -> None:
    with SessionMemoryStore(path, NO_MODEL) as store:
        (found,) = store.search_chunks("quokka", Scope("report"), Page(limit=5), mode=SearchMode.KEYWORD).results
        document = store.reconstruct_document(1).content or ""
    assert found.header_path == "# Outage of 12 May > ## Timeline > ### Afternoon"
    assert found.chunk_content in document


def test_the_backfill_gives_vectors_to_the_chunks_of_the_upgrade(path: Path) -> None:
    with SessionMemoryStore(path, Settings(embedding_model="toy")) as store:
        (before,) = store.search_chunks("quokka", Scope("report"), mode=SearchMode.KEYWORD).results
        assert store.backfill_embeddings().memories_remaining == 0
        after = store.search_chunks("quokka", Scope("report")).results[0]
        assert (after.chunk_id, after.similarity is not None) == (before.chunk_id, True)


def test_an_id_of_the_original_never_means_another_chunk(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        given = fetch_value(connection, "select seq from sqlite_sequence where name = 'memory_chunks'") or 0
    with SessionMemoryStore(path, NO_MODEL) as store, database_of(store).read() as reader:
        assert fetch_value(reader, "select min(id) from memory_chunks") == given + 1


def test_every_memory_keeps_its_id_and_its_text(path: Path) -> None:
    before = texts_in(path)
    without_cutting(path)
    assert len(before) == 8
    assert texts_in(path) == before


def test_a_text_with_the_character_nul_is_read_as_it_is_and_copied_with_a_character_in_its_place(
    path: Path, tmp_path: Path
) -> None:
    text = "A line that ends \0 early, and quokka"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("update session_memories set content = ? where id = 1", (text,))
    with SessionMemoryStore(path, NO_MODEL) as store:
        assert store.reconstruct_document(1).content == text
        assert found_by_words(store) == everything()
    copied = copy_all(path, tmp_path / "copy.db", lambda _: nullcontext(lambda *_: None))
    assert (copied.memories, copied.nul_characters) == (8, 1)
    with SessionMemoryStore(tmp_path / "copy.db", NO_MODEL) as store:
        assert store.reconstruct_document(1).content == text.replace("\0", "\ufffd")
        assert found_by_words(store) == everything()


def test_kinds_iterations_sessions_and_times_are_normalized(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as source:
        times = fetch_column(source, "select created_at from session_memories order by id")
    odd = "created_at = '2025-05-13T09:30:00', title = x'41ff', access_count = 'x'"
    memories = upgraded_after(path, f"update session_memories set {odd} where id = 8", range(1, 9))
    assert (memories[-1].title, memories[-1].access_count) == ("A\ufffd", 0)
    assert [(memory.memory_type, memory.agent_id, memory.session_id, memory.session_iter) for memory in memories] == [
        ("report", "explorer", "outage", 1),
        ("report_observation", "explorer", "outage", 1),
        ("working_memory", "explorer", "outage", 2),
        ("session_context", "main-orchestrator", "outage", 2),
        ("input_prompt", "planner", "outage", 2),
        ("system_memory", "explorer", "outage", 1),
        ("knowledge_base", "explorer", None, 1),
        ("report", "explorer", "cache", 10),
    ]
    assert [memory.created_at for memory in memories] == [*times[:7], "2025-05-13T09:30:00.000000+00:00"]
    assert (memories[0].tags, memories[0].metadata) == (["outage", "ledger"], {"severity": "high"})
    assert memories[1].metadata == {"parent_report_id": 1}


def test_the_id_of_a_deleted_memory_is_never_reused(path: Path) -> None:
    with SessionMemoryStore(path, NO_MODEL) as store:
        assert store.store_memory("input_prompt", "Another prompt.", session_id="s").memory_id == 10


def test_one_unchanged_copy_of_the_file_is_kept(path: Path) -> None:
    before = texts_in(path)
    without_cutting(path)
    copy = path.with_name("memory.db.before-upgrade")
    assert texts_in(copy) == before
    assert "reports" in kinds_in(copy)
    without_cutting(path)
    assert [file.name for file in path.parent.glob("*.before-upgrade*")] == [copy.name]


def test_a_failed_upgrade_leaves_the_file_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: apsw.Connection) -> None:
        raise apsw.FullError

    monkeypatch.setattr("vector_memory.storage.sqlite.legacy.carry_over_sequences", fail)
    with pytest.raises(Exception, match="full"):
        without_cutting(path)
    assert "reports" in kinds_in(path)


def test_tags_that_are_not_strings_become_strings(path: Path) -> None:
    odd = "update session_memories set tags = case id when 1 then '[1, \"two\", null]' else 'no json' end where id < 3"
    assert [memory.tags for memory in upgraded_after(path, odd, [1, 2])] == [["1", "two", "null"], []]


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
