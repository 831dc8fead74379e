"""From a caller's word to a category: by its name, by the dictionary if it is short, by meaning if it is longer."""

from pathlib import Path

import pytest

from vector_memory.embedding import EmbeddingModel
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.tags import ABBREVIATIONS, CATEGORIES, MIN_COMPARED, PHRASES, nearest_category
from vector_memory.tagged.vocabulary import Vocabulary


@pytest.fixture
def vocabulary(tmp_path: Path, model: EmbeddingModel) -> Vocabulary:
    return Vocabulary(SqliteStorage(Database(tmp_path / "memory.db", dimensions=384)), model)


def test_the_categories_are_the_nine_of_the_specification() -> None:
    assert CATEGORIES == (
        "code-solution",
        "bug-fix",
        "architecture",
        "learning",
        "tool-usage",
        "debugging",
        "performance",
        "security",
        "other",
    )


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_means_itself_in_any_spelling(vocabulary: Vocabulary, category: str) -> None:
    assert vocabulary.category(category) == category
    assert vocabulary.category(f" {category.upper().replace('-', '_')} ") == category


@pytest.mark.parametrize(
    ("word", "category"),
    [("auth", "security"), ("bug", "bug-fix"), ("fix", "bug-fix"), ("bugs", "bug-fix"), ("perf", "performance")],
)
def test_the_specified_short_words_are_looked_up(modelless_store: SessionMemoryStore, word: str, category: str) -> None:
    """They need no model."""
    assert modelless_store.tagged.store("A note.", word).category == category


def test_the_dictionary_has_short_words_only() -> None:
    assert all(len(word) < MIN_COMPARED for word in ABBREVIATIONS)


@pytest.mark.parametrize(
    ("word", "category"),
    [
        ("optimization", "performance"),
        ("vulnerability", "security"),
        ("bugfix", "bug-fix"),
        ("design decision", "architecture"),
        ("troubleshooting", "debugging"),
        ("insight", "learning"),
        ("configuration", "tool-usage"),
        ("working implementation", "code-solution"),
    ],
)
def test_longer_words_are_compared_by_meaning(vocabulary: Vocabulary, word: str, category: str) -> None:
    assert vocabulary.category(word) == category


@pytest.mark.parametrize("word", ["cooking", "holiday", "xyz", "miscellaneous", "project-context"])
def test_a_word_that_is_not_near_any_category_has_none(vocabulary: Vocabulary, word: str) -> None:
    """So is `project-context`, which a table of the seed uses, though it is none of its categories."""
    assert vocabulary.category(word) is None


def cosines(**near: float) -> dict[str, float]:
    """Return cosines with every phrase, those of a category's name as given."""
    found = {phrase: 0.0 for phrases in PHRASES.values() for phrase in phrases}
    return found | {PHRASES[name.replace("_", "-")][0]: cosine for name, cosine in near.items()}


def test_the_nearest_category_needs_a_similarity_of_one_half() -> None:
    assert nearest_category(cosines(security=0.5, learning=0.4)) == "security"
    assert nearest_category(cosines(security=0.4999)) is None


def test_the_nearest_category_must_be_a_tenth_nearer_than_other() -> None:
    assert nearest_category(cosines(security=0.7, other=0.6)) == "security"
    assert nearest_category(cosines(security=0.6999, other=0.6)) is None
