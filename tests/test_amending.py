"""What stands beside a text can be amended: its new words find it, and the text stays."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

from engine_memories import MODEL, derived
from engines import execute
from inside import storage_of
from lattice import LatticeEmbedder
from vector_memory.domain import MemoryKind, NewMemory, Page, Scope, SearchMode
from vector_memory.errors import NotFoundError, ValidationError
from vector_memory.settings import Redact, Settings
from vector_memory.storage.base import Storage
from vector_memory.store import SessionMemoryStore

REPORTS = Scope(MemoryKind.REPORT)
TEXT = "# Exports\n\nThey are CSV.\n\n## Since when\n\nSince the move."


@pytest.fixture
def number(store: SessionMemoryStore) -> int:
    stored = store.store_memory("report", TEXT, session_id="s", title="Exports", description="old", tags=["a", "b"])
    return stored.memory_id or 0


def by_words(store: SessionMemoryStore, query: str, kind: MemoryKind = MemoryKind.REPORT) -> list[int]:
    if kind is MemoryKind.REPORT:
        found = store.search_chunks(query, Scope(kind), mode=SearchMode.KEYWORD).results
        return sorted({chunk.memory_id for chunk in found})
    return [one.id for one in store.search_memories(query, Scope(kind), mode=SearchMode.KEYWORD).results]


def test_the_new_words_of_a_title_find_a_memory_and_the_old_ones_do_not(store: SessionMemoryStore, number: int) -> None:
    prompt = store.store_memory("input_prompt", "why", session_id="s", title="Kumquat").memory_id
    store.amend_memory(number, title="Parquet files")
    store.amend_memory(prompt, title="Mango")
    assert by_words(store, "parquet") == [number]
    assert by_words(store, "exports") == [number]  # its heading
    assert by_words(store, "mango", MemoryKind.INPUT_PROMPT) == [prompt]
    assert by_words(store, "kumquat", MemoryKind.INPUT_PROMPT) == []


def test_all_chunks_of_a_document_are_found_by_its_new_title(store: SessionMemoryStore) -> None:
    text = "\n\n".join(f"## Part {part}\n\n" + f"word{part} " * 300 for part in range(4))
    number = store.store_memory("report", text, session_id="s", title="Old").memory_id
    store.amend_memory(number, title="Kumquat")
    found = store.search_chunks("kumquat", REPORTS, Page(limit=100), mode=SearchMode.KEYWORD).results
    assert len(found) == store.reconstruct_document(number).chunk_count > 3
    assert by_words(store, "old") == []
    store.delete_memory(number)
    assert execute(store, "select count(*) from keyword_postings") == [(0,)]


def test_only_what_is_sent_changes(store: SessionMemoryStore, number: int) -> None:
    before = store.get_memory_by_id(number).memory
    execute(store, "update session_memories set updated_at = '2020-01-01T00:00:00.000000+00:00'")
    answer = store.amend_memory(number, tags=["c"])
    assert (answer.title, answer.description, answer.tags) == ("Exports", "old", ["c"])
    after = store.get_memory_by_id(number).memory
    assert after.updated_at > "2026"
    assert {**after.model_dump(), "updated_at": 0, "tags": 0, "accessed_at": 0, "access_count": 0} == {
        **before.model_dump(), "updated_at": 0, "tags": 0, "accessed_at": 0, "access_count": 0
    }  # fmt: skip
    assert [one.id for one in store.search_scoped(Scope(tags=["c"])).results] == [number]
    assert store.search_scoped(Scope(tags=["a"])).results == []


def test_an_empty_value_removes_one(store: SessionMemoryStore, number: int) -> None:
    store.amend_memory(number, title="Other")
    answer = store.amend_memory(number, title="", description="", tags=[])
    assert (answer.title, answer.description, answer.tags) == ("Exports", None, [])  # the title in the text


def test_the_title_of_knowledge_stays_required_and_is_in_its_metadata(store: SessionMemoryStore) -> None:
    number = store.store_memory("knowledge_base", "Fact", title="One").memory_id
    store.amend_memory(number, title="Two")
    entry = store.get_memory_by_id(number).memory
    assert (entry.title, entry.metadata["title"]) == ("Two", "Two")
    with pytest.raises(ValidationError, match="needs a title"):
        store.amend_memory(number, title="")


def test_what_cannot_be_amended_is_refused_with_what_to_do(store: SessionMemoryStore, number: int) -> None:
    note = store.tagged.store("note", tags=["x"]).memory_id
    with pytest.raises(ValidationError, match="store its text again"):
        store.amend_memory(note, tags=["y"])
    with pytest.raises(ValidationError, match="nothing to change"):
        store.amend_memory(number)
    with pytest.raises(ValidationError, match="at most 500"):
        store.amend_memory(number, title="x" * 501)
    with pytest.raises(NotFoundError):
        store.amend_memory(10**6, title="x")
    assert store.get_memory_by_id(number).memory.title == "Exports"


def test_lists_changes_and_exports_show_a_memory_as_it_is_now(store: SessionMemoryStore, number: int) -> None:
    stored_until = store.search_changes(Scope(session_id="s"), since="now").cursor
    store.amend_memory(number, title="Now")
    assert [one.title for one in store.search_changes(Scope(session_id="s")).results] == ["Now"]
    assert store.search_changes(Scope(session_id="s"), since=stored_until).total_new == 0
    assert [one.title for one in store.get_timeline(Scope()).entries] == ["Now"]
    file = BytesIO()
    store.export_memories(file)
    assert json.loads(file.getvalue().splitlines()[1])["title"] == "Now"


def test_secrets_are_removed_from_new_values(tmp_path: Path) -> None:
    settings = Settings(embedding_model="toy", redact=Redact.ALL)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as store:
        number = store.store_memory("report", TEXT, session_id="s").memory_id
        answer = store.amend_memory(number, title="<private>me</private> and more", tags=["<private>x</private>"])
        assert (answer.title, answer.tags) == ("[redacted: private] and more", ["[redacted: private]"])


@pytest.fixture
def enriching(path: Path) -> Iterator[SessionMemoryStore]:
    """A memory whose vectors embed titles."""
    with SessionMemoryStore(path, Settings(embedding_model="toy", enable_enrichment=True)) as opened:
        yield opened


def test_vectors_that_embed_the_title_are_recomputed(enriching: SessionMemoryStore) -> None:
    number = enriching.store_memory("report", TEXT, session_id="s", title="Exports").memory_id or 0
    before = vectors(storage_of(enriching), number)
    enriching.amend_memory(number, description="no change of the title")
    assert vectors(storage_of(enriching), number) == before
    enriching.amend_memory(number, title="Something else")
    assert vectors(storage_of(enriching), number) == []
    assert by_words(enriching, "something else") == [number]
    assert enriching.backfill_embeddings().memories_processed == 1
    after = vectors(storage_of(enriching), number)
    assert len(after) == len(before)
    assert after != before
    fresh = enriching.store_memory("report", TEXT, session_id="t", title="Something else").memory_id or 0
    assert vectors(storage_of(enriching), fresh) == after


def test_vectors_computed_of_an_earlier_title_are_not_stored(enriching: SessionMemoryStore) -> None:
    """A process may embed a memory while another one amends it."""
    storage = storage_of(enriching)
    number = enriching.store_memory("report", TEXT, session_id="s", title="Exports").memory_id or 0
    enriching.amend_memory(number, title="Second")
    with storage.read() as reader:
        stale = reader.memories.get(number)
    enriching.amend_memory(number, title="Third")
    with storage.write() as writer:
        new = NewMemory(kind=MemoryKind.REPORT, agent_id="a", content=TEXT, session_id="s")
        assert not writer.add_vectors(stale, derived(new, MODEL), after=0, is_last=True)


def vectors(storage: Storage, number: int) -> list[list[float]]:
    with storage.read() as reader:
        return [passage.vector.tolist() for passage in reader.vectors.passages_of(reader.memories.get(number))]


def test_tags_that_several_add_at_the_same_time_are_all_kept(store: SessionMemoryStore, number: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda tag: store.tag_memory(number, add=[tag], remove=["a"]), map("t{}".format, range(16))))
    assert store.get_memory_by_id(number).memory.tags[0] == "b"
    assert {*store.get_memory_by_id(number).memory.tags} == {"b", *map("t{}".format, range(16))}
