"""How the vocabulary merges real pairs of tags (measured by benchmarks/tags.py, described in docs/tagged.md)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import utc_now
from vector_memory.embedding import EmbeddingModel
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.tagged.tags import accept_tags
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


def are_merged(database: Database, model: EmbeddingModel, tags: tuple[str, ...]) -> bool:
    """Tell whether an empty vocabulary has one tag for two, in whatever order they come."""
    vocabulary = Vocabulary(SqliteStorage(database), model)
    accepted, refused = accept_tags(tags)
    assert not refused
    with database.write() as connection:
        connection.execute("delete from canonical_tags")
    made = vocabulary.vectors_for(accepted)
    merged = set()
    for order in (accepted, accepted[::-1]):
        with database.write() as connection:
            merged.add(len(set(vocabulary.adopt(SqliteWriter(connection), order, made, utc_now()).values())) == 1)
            connection.execute("delete from canonical_tags")
    assert len(merged) == 1, tags
    return merged.pop()


def test_there_are_at_least_200_pairs_without_duplicates() -> None:
    assert len(PAIRS) >= 200
    assert len({frozenset(pair[:2]) for pair in PAIRS}) == len(PAIRS)
    assert set(SURPRISES) <= set(PAIRS)


def test_each_pair_merges_or_not_as_expected_or_as_recorded(database: Database, model: EmbeddingModel) -> None:
    """In either order."""
    merge = {pair: (pair[2] == "merge") != (pair in SURPRISES) for pair in PAIRS}
    assert {pair: are_merged(database, model, pair[:2]) for pair in PAIRS} == merge


def test_no_two_subjects_are_ever_merged() -> None:
    """The recorded surprises are missed forms; a wrong merge could not be undone."""
    assert {pair[2] for pair in SURPRISES} == {"merge"}
