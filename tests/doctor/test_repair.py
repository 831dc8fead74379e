"""Every damage to derived data is found by exactly its check and repaired; the text is not changed."""

from pathlib import Path

import apsw
import pytest

from memory_files import SETTINGS, WRITER, Modelless, change, doctor, examine, found, process, said
from vector_memory.domain import Page, Scope
from vector_memory.maintenance.doctor.report import State
from vector_memory.settings import Settings
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.store import SessionMemoryStore

FIXABLE = {
    "a memory removed without its chunks": ("delete from session_memories where id = 1", "orphans keywords"),
    "a memory removed without its passages": ("delete from session_memories where id = 3", "orphans keywords"),
    "a model removed": ("delete from embedding_models", "orphans"),
    "a chunk in the wrong place": ("update memory_chunks set start_char = 1, end_char = 3 where id = 2", "chunks"),
    "a chunk's text changed": ("update memory_chunks set content = upper(content) where id = 2", "chunks"),
    "a chunk removed": ("pragma foreign_keys = on; delete from memory_chunks where id = 3", "chunks"),
    "a passage beyond the text": ("update memory_passages set end_char = 9999 where memory_id = 3", "passages"),
    "a passage outside its chunk": ("update memory_passages set start_char = 0 where chunk_id = 3", "passages"),
    "an empty passage": ("update memory_passages set end_char = start_char where memory_id = 3", "passages"),
    "passages removed": ("delete from memory_passages where memory_id in (1, 3)", "passages"),
    "a chunk's passages removed": ("delete from memory_passages where chunk_id = 3", "passages"),
    "a vector removed": ("delete from vec_chunk_search where passage_id = 2", "vectors"),
    "a whole memory's vector removed": (
        "delete from vec_session_search where passage_id = (select min(id) from memory_passages where memory_id = 4)",
        "vectors",
    ),
    "a vector of zeros": ("update vec_chunk_search set embedding = zeroblob(64) where passage_id = 2", "vectors"),
    "a vector of nothing": (
        """
        insert into vec_chunk_search (passage_id, session_key, kind_key, agent_key, task_key, session_iter, embedding)
        values (9999, 1, 1, 1, 1, 1, zeroblob(64))
        """,
        "orphans",
    ),
    "sqlite-vec's own tables damaged": ("delete from vec_chunk_search_chunks", "tables"),
    "a key changed": ("update index_keys set name = 'elsewhere' where name = 's'", "index"),
    "a key removed": ("delete from index_keys where name = 'a'", "index"),
    "a vector's iteration changed": ("update vec_chunk_search set session_iter = 9 where passage_id = 2", "index"),
    "a keyword row removed": (
        "delete from keyword_postings where id = (select max(id) from keyword_postings)",
        "keywords",
    ),
    "a keyword row of no block": ("insert into keyword_postings values (999999, x'0000000000000000')", "orphans"),
    "a memory taken out of the keyword index": ("delete from keyword_memories where memory_id = 3", "keywords"),
    "a keyword added": ("update keyword_postings set postings = cast(postings || postings as blob)", "keywords"),
    "half a keyword": (
        "update keyword_postings set postings = substr(postings, 5) where id = (select min(id) from keyword_postings)",
        "keywords",
    ),
    "a length changed": ("update keyword_memories set lengths = zeroblob(length(lengths))", "keywords"),
    "keywords of another session": ("update keyword_blocks set session_id = 'elsewhere'", "keywords"),
    "a block that counts too few pieces": ("update keyword_blocks set units = 1", "keywords"),
    "a block removed": ("delete from keyword_blocks where id = 1; delete from keyword_memories", "orphans keywords"),
    "a number among tags": ("update session_memories set tags = '[1]' where id = 1", "values"),
    "a negative place": ("update keyword_memories set first_unit = -5", "keywords"),
    "a place far away": ("update keyword_memories set first_unit = 1000000000000", "keywords"),
    "blocks removed": ("delete from keyword_blocks", "orphans keywords"),
    "vectors hidden": ("update vec_chunk_search_chunks set validity = zeroblob(4)", "tables"),
    "vectors renamed": ("update vec_chunk_search_chunks set rowids = zeroblob(256)", "tables"),
    "a list of vectors shortened": ("update vec_chunk_search_chunks set rowids = x'00'", "tables"),
    "a block of vectors removed": ("delete from vec_chunk_search_vector_chunks00 where rowid = 1", "tables"),
    "a vector outside its block": ("update vec_chunk_search_rowids set chunk_offset = -5 where rowid = 2", "tables"),
    "chunks in other places": ("update memory_chunks set chunk_index = chunk_index + 100", "chunks"),
}


REFUSED = (
    "update keyword_postings set postings = 'abc'",
    "update memory_chunks set start_char = 'x' where id = 2",
    "update session_memories set access_count = 'x'",
    "update embedding_models set model = x'00'",
    "update memory_passages set memory_id = cast(x'ff80' as text) where id = 2",
)


def texts(path: Path) -> list[tuple[object, ...]]:
    sql = "select id, content, original_content, title, description, content_hash, turn from session_memories"
    return inspect(path, lambda connection: connection.execute(sql).fetchall())


@pytest.mark.parametrize(("sql", "check"), FIXABLE.values(), ids=FIXABLE)
def test_derived_data_is_checked_and_repaired_and_the_text_is_unchanged(path: Path, sql: str, check: str) -> None:
    change(path, sql)
    damaged = examine(path)
    assert found(damaged) == dict.fromkeys(check.split(), State.PROBLEM)
    assert all("--fix" in said(damaged, each) for each in check.split())
    before = texts(path)
    report, done = doctor(path).repair_all(damaged)
    assert done
    assert found(report) == {}
    assert texts(path) == before
    with SessionMemoryStore(path, SETTINGS) as store:
        assert "word3" in store.search_chunks("word3", Scope("knowledge_base"), Page(limit=1)).results[0].chunk_content


@pytest.mark.parametrize("sql", REFUSED)
def test_sqlite_refuses_values_of_another_type(path: Path, sql: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="cannot store"):
        change(path, sql)


def test_several_kinds_of_damage_are_repaired_together(path: Path) -> None:
    for sql, _ in (FIXABLE[name] for name in ("a chunk's text changed", "a key removed", "a length changed")):
        change(path, sql)
    change(path, FIXABLE["a memory removed without its passages"][0])
    report, _ = doctor(path).repair_all(examine(path))
    assert found(report) == {}


def test_memories_without_vectors_are_a_warning_and_get_vectors(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS, embedder=Modelless()) as store:
        store.store_memory("report", "Stored without a model.", session_id="s")
    report = examine(path)
    assert (found(report), report.healthy) == ({"unindexed": State.WARNING}, True)
    doctor(path).repair(report)
    assert found(examine(path)) == {}


def test_without_a_model_vectors_stay_as_they_are(path: Path, tmp_path: Path) -> None:
    change(path, "delete from vec_chunk_search where passage_id = 2; " + FIXABLE["a keyword row removed"][0])
    modelless = doctor(path, Settings(embedding_model_path=tmp_path))
    before = texts(path)
    modelless.repair(modelless.examine())
    assert found(examine(path)) == {"vectors": State.PROBLEM}
    assert texts(path) == before


def test_a_file_is_repaired_while_a_server_writes_to_it(path: Path) -> None:
    change(path, "delete from vec_chunk_search where passage_id = 2; " + FIXABLE["a keyword row removed"][0])
    with process(WRITER, path) as server:
        doctor(path).repair(examine(path))
        assert found(examine(path)) == {}
        assert server.poll() is None
