"""What the vocabulary makes of real pairs of tags (benchmarks/tags.py measures them, docs/tagged.md tells)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import utc_now
from vector_memory.embedding import EmbeddingModel
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.storage import SqliteStorage, SqliteWriter
from vector_memory.tagged.tags import sifted
from vector_memory.tagged.vocabulary import Vocabulary

HERE = Path(__file__).parent


def table(name: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


PAIRS, SURPRISES = table("tag_pairs.tsv"), table("tag_surprises.tsv")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("pairs") / "memory.db", dimensions=384)
    yield database
    database.close()


def canonical_forms(database: Database, model: EmbeddingModel, tags: list[str]) -> set[str]:
    """Return what is canonical after these tags were stored in an empty vocabulary."""
    vocabulary = Vocabulary(SqliteStorage(database), model)
    accepted, refused = sifted(tags)
    assert not refused
    with database.write() as connection:
        connection.execute("delete from canonical_tags")
    made = vocabulary.vectors_for(accepted)
    with database.write() as connection:
        return set(vocabulary.adopt(SqliteWriter(connection), accepted, made, utc_now()).values())


def test_there_are_at_least_200_pairs_and_each_is_there_once() -> None:
    assert len(PAIRS) >= 200
    assert len({frozenset(pair[:2]) for pair in PAIRS}) == len(PAIRS)
    assert set(SURPRISES) <= set(PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair[0]} | {pair[1]}" for pair in PAIRS])
def test_each_pair_merges_or_not_as_expected_or_as_recorded(
    database: Database, model: EmbeddingModel, pair: tuple[str, ...]
) -> None:
    """In either order."""
    first, second, expected, _ = pair
    merge = (expected == "merge") != (pair in SURPRISES)
    assert (len(canonical_forms(database, model, [first, second])) == 1) == merge
    assert (len(canonical_forms(database, model, [second, first])) == 1) == merge


def test_no_two_subjects_are_ever_merged() -> None:
    """What is recorded as a surprise is a form that was missed; a wrong merge could not be undone."""
    assert {pair[2] for pair in SURPRISES} == {"merge"}
