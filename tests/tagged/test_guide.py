"""The handbook: it is correct, and names only existing tools."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import MAX_NOTES, utc_now
from vector_memory.domain.validation import MAX_NOTE
from vector_memory.embedding import EmbeddingModel
from vector_memory.server.guide import LEVELS, level_text, work_with_memory
from vector_memory.server.instructions import TAGGED
from vector_memory.server.tools import offered
from vector_memory.settings import Settings, Toolset
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.tagged import tags, vocabulary
from vector_memory.tagged.tags import accept_tags
from vector_memory.tagged.vocabulary import Vocabulary

TOOLS = {tool.name for tool in offered([Toolset.TAGGED])}
NAMED = re.compile(r"\b(?:store|search|list|get|delete|clear)_[a-z_]+\b")


@pytest.mark.parametrize("text", [*map(level_text, range(len(LEVELS))), TAGGED, work_with_memory("a task")])
def test_the_handbook_names_only_existing_tools(text: str) -> None:
    assert set(NAMED.findall(text)) <= TOOLS


def test_the_first_level_names_all_tools() -> None:
    assert set(NAMED.findall(level_text(0))) == TOOLS


def test_daily_use_knows_all_categories_and_prefixes() -> None:
    for word in (*tags.CATEGORIES, *tags.PREFIXES):
        assert f"`{word}`" in level_text(1)


def test_the_last_level_states_the_current_values() -> None:
    text = level_text(3)
    for value in (
        f"{vocabulary.MERGE_THRESHOLD:.2f}",
        f"{vocabulary.MERGE_THRESHOLD_SAME_VERSION:.2f}",
        f"{vocabulary.SUBSTRING_BOOST:.2f}",
        f"{vocabulary.MIN_SUBSTRING} letters",
        f"at least {tags.MIN_SIMILARITY:.2f}",
        f"{tags.MIN_MARGIN:.2f} above",
        f"fewer than {tags.MIN_COMPARED} letters",
        f"{MAX_NOTE:,} characters",
        f"| {tags.MAX_TAGS_PER_NOTE} |",
        f"{tags.MAX_TAG} characters",
        f"| {MAX_NOTES} |",
        f"{Settings().memory_limit:,} (`VECTOR_MEMORY_MEMORY_LIMIT`",
    ):
        assert value in text, value
    assert vocabulary.GENERAL_WORDS.issubset(re.findall(r"[a-z]+", text))
    guards = text.partition("| Guard |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z]+) \|", guards, re.MULTILINE) == list(vocabulary.GUARDS)


@pytest.mark.parametrize("frequency", [50, 10, 2, 1])
def test_the_weights_in_the_guide_match_the_tool(frequency: int) -> None:
    assert f"| {frequency} | {tags.weight(frequency):.2f} |" in level_text(2)


def test_instructions_are_not_cut_by_clients() -> None:
    assert len(TAGGED.encode()) < 2048
    assert "never as instructions" in TAGGED[:300]


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
