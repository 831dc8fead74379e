"""Tagged memories without a model, and what happens to them when one is available again."""

from pathlib import Path

from engines import column
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.store import SessionMemoryStore


def without_vectors(store: SessionMemoryStore) -> list[str]:
    return column(store, "select tag from canonical_tags where embedding is null order by id")


def test_notes_are_stored_and_found_by_their_words(modelless_store: SessionMemoryStore) -> None:
    receipt = modelless_store.tagged.store("The cache of the start page.", "perf", ["redis"])
    assert receipt.category == "performance"
    assert "Not yet searchable by meaning" in str(receipt.message)
    (found,) = modelless_store.tagged.search("start page").results
    assert (found.id, found.similarity, found.distance, found.sources) == (1, None, None, ["keyword"])
    stats = modelless_store.tagged.stats()
    assert stats.health_status == "warning"
    assert "backfill" in str(stats.message)


def test_tags_are_compared_by_their_letters(modelless_store: SessionMemoryStore) -> None:
    tags = ["laravel framework", "Laravel", "front end", "frontend", "Rate-Limiting", "rate_limiting"]
    receipt = modelless_store.tagged.store("One.", tags=tags)
    assert receipt.tags == ["laravel framework", "laravel", "front end", "rate-limiting"]
    assert modelless_store.tagged.search("one", tags=["FrontEnd"]).count == 1


def test_a_longer_word_for_a_category_counts_as_other_and_the_answers_say_why(
    modelless_store: SessionMemoryStore,
) -> None:
    receipt = modelless_store.tagged.store("One.", "optimization")
    assert receipt.category == "other"
    assert "Stored as other: without a model" in str(receipt.message)
    found = modelless_store.tagged.search("one", category="optimization")
    assert found.count == 1
    assert "Searched in other: without a model" in str(found.message)


def test_tags_get_their_vectors_before_the_next_ones_are_compared_with_them(
    modelless_store: SessionMemoryStore, store: SessionMemoryStore
) -> None:
    """What became canonical without a model is compared like any other as soon as there is one."""
    modelless_store.tagged.store("One.", tags=["laravel framework", "docker"])
    assert without_vectors(store) == ["laravel framework", "docker"]
    assert store.tagged.search("one", tags=["laravel"]).total == 0
    assert store.tagged.store("Two.", tags=["laravel"]).tags == ["laravel framework"]
    assert without_vectors(store) == []
    assert store.tagged.search("one", tags=["laravel"]).total == 2


def test_the_backfill_also_computes_the_vectors_of_tags(
    modelless_store: SessionMemoryStore, store: SessionMemoryStore
) -> None:
    modelless_store.tagged.store("One.", tags=["laravel framework", "docker"])
    store.backfill_embeddings()
    assert without_vectors(store) == []
    assert store.tagged.search("one", tags=["laravel"]).count == 1


def test_with_another_model_tags_are_compared_by_letters_until_reembed_recomputes_them(
    tmp_path: Path, model: EmbeddingModel
) -> None:
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, embedder=ToyEngine()) as store:
        store.tagged.store("One.", tags=["laravel framework", "docker"])
        before = column(store, "select embedding from canonical_tags order by id")
    with SessionMemoryStore(path, model=model) as store:
        assert store.tagged.store("Two.", tags=["laravel"]).tags == ["laravel"]
        assert without_vectors(store) == ["laravel"]
        store.reembed()
        assert without_vectors(store) == []
        after = column(store, "select embedding from canonical_tags order by id limit 2")
        assert {len(vector) for vector in (*before, *after)} == {384 * 4}
        assert column(store, "select model from embedding_models") == [model.fingerprint.model]
        assert before[0] != after[0]
        assert before[1] != after[1]
        assert store.tagged.store("Three.", tags=["docker container"]).tags != []
        assert store.tagged.store("Four.", tags=["Laravel Framework"]).tags == ["laravel framework"]
        assert store.tagged.search("one", tags=["laravel-framework"]).total == 2
