"""Sections: what belongs to one, how they are ranked, what their text is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.search.copies import MatchedSection, MemorySection, rank_sections, sections_of
from vector_memory.search.rank import Hit
from vector_memory.storage.records import ChunkOutline
from vector_memory.store import SessionMemoryStore

DOCUMENT = """A preamble before any heading, long enough for a chunk of its own: {filler}

# Performance

About the whole: {filler}

## Database

### Queries

{filler} slow queries

### Indexes

{filler} missing indexes

## API

{filler} response times
""".replace("{filler}", " ".join(f"filler{number}" for number in range(20)))


def outline(number: int, *headings: str, memory_id: int = 1) -> ChunkOutline:
    return ChunkOutline(id=number, memory_id=memory_id, start=number * 10, end=number * 10 + 12, headings=headings)


def test_a_section_is_everything_under_the_first_two_headings() -> None:
    sections = sections_of(
        [outline(1, "# A"), outline(2, "# A", "## B"), outline(3, "# A", "## B", "### C"), outline(4, "# A", "## D")]
    )
    assert [(section.headings, section.chunk_ids) for section in sections] == [
        (("# A",), (1,)),
        (("# A", "## B"), (2, 3)),
        (("# A", "## D"), (4,)),
    ]


def test_a_preamble_a_document_without_headings_and_a_repeated_heading_are_separate_sections() -> None:
    sections = sections_of(
        [outline(1), outline(2, "# A"), outline(3, "# B"), outline(4, "# A"), outline(5, memory_id=2)]
    )
    assert [section.chunk_ids for section in sections] == [(1,), (2,), (3,), (4,), (5,)]


def test_a_section_reaches_from_its_first_chunk_to_the_farthest_end() -> None:
    inner = ChunkOutline(id=4, memory_id=1, start=35, end=38, headings=())
    sections = sections_of([outline(1), outline(2), outline(3), inner])
    assert [(section.start, section.end) for section in sections] == [(10, 42)]


def hit(number: int, score: float, similarity: float | None = 0.5) -> Hit:
    return Hit(number, 1, score, similarity, ("vector",))


@given(st.lists(st.integers(1, 12), unique=True), st.randoms(use_true_random=False))
def test_sections_are_ranked_by_the_mean_of_their_matches(ids: list[int], source: object) -> None:
    sections = [
        MemorySection(1, (str(first),), (first, first + 1, first + 2), first, first + 3) for first in (1, 4, 7, 10)
    ]
    ranked = rank_sections(sections, [hit(number, source.random()) for number in ids])  # type: ignore[attr-defined]
    assert {chunk_id for found in ranked for chunk_id in found.section.chunk_ids} >= set(ids)
    means = [sum(match.score for match in found.hits) / len(found.hits) for found in ranked]
    assert all(one >= other - 1e-6 for one, other in pairwise(means))
    assert sum(len(found.hits) for found in ranked) == len(ids)


def test_a_section_counts_as_merged_from_three_of_five_matching_chunks() -> None:
    section = MemorySection(1, (), (1, 2, 3, 4, 5), 0, 9)
    assert [MatchedSection(section, (hit(1, 0.5),) * count).match_ratio for count in (2, 3)] == [0.4, 0.6]


def test_the_similarity_of_a_section_is_the_mean_of_those_chunks_that_have_one() -> None:
    section = MemorySection(1, (), (1, 2, 3), 0, 9)
    assert MatchedSection(section, (hit(1, 0.9, 0.2), hit(2, 0.1, 0.6), hit(3, 0.1, None))).similarity == 0.4
    assert MatchedSection(section, (hit(1, 0.9, None),)).similarity is None


def test_the_text_of_a_section_is_its_slice_of_the_document(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    found = store.search_sections("slow queries", Scope("report"), Page(limit=10)).results
    by_header = {section.section_header: section for section in found}
    assert set(by_header) == {"", "# Performance", "# Performance > ## Database", "# Performance > ## API"}
    database = by_header["# Performance > ## Database"]
    assert database.section_content == DOCUMENT[DOCUMENT.index("## Database") : DOCUMENT.index("## API")].rstrip()
    assert DOCUMENT[database.content_start :].startswith(database.section_content)
    assert database.chunks_in_section >= database.matched_chunks
    assert database.auto_merged is (database.match_ratio >= 0.6)
    assert "".join(by_header[""].section_content.split()) == "".join(DOCUMENT[: DOCUMENT.index("# Perf")].split())


def test_the_similarity_of_a_section_is_the_mean_of_its_chunks_in_the_fine_search(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    chunks = store.search_chunks("slow queries", Scope("report"), Page(limit=50)).results
    for section in store.search_sections("slow queries", Scope("report"), Page(limit=10)).results:
        parts = [
            chunk.similarity
            for chunk in chunks
            if " > ".join(chunk.header_path.split(" > ")[:2]) == section.section_header
        ]
        assert section.matched_chunks == len(parts)
        assert section.similarity == pytest.approx(sum(parts) / len(parts))


def test_five_chunks_are_searched_for_each_section_asked_for(store: SessionMemoryStore) -> None:
    parts = [" ".join(f"word{part}{number}" for number in range(30)) for part in range(12)]
    store.store_memory("report", "# One\n\n" + "\n\n".join(parts), session_id="s")
    assert store.search_sections("word1", Scope("report"), Page(limit=1)).results[0].matched_chunks == 5
    assert store.search_sections("word1", Scope("report"), Page(limit=2)).results[0].matched_chunks == 10


def test_a_section_too_long_for_an_answer_says_where_to_read_on(store: SessionMemoryStore) -> None:
    content = "# Long\n\n" + "".join(f"word{number} " for number in range(12_000))
    memory_id = store.store_memory("report", content, session_id="s").memory_id or 0
    section = store.search_sections("word1 word2", Scope("report"), Page(limit=1)).results[0]
    assert section.content_end is not None
    assert content.startswith(section.section_content)
    rest = store.get_memory_by_id(memory_id, offset=section.content_end).memory
    assert content[section.content_end :].startswith(rest.content)


def test_kinds_that_are_not_split_into_chunks_have_neither_chunks_nor_sections_to_search(
    store: SessionMemoryStore,
) -> None:
    store.store_memory("system_memory", "a b c", session_id="s")
    for search in (store.search_chunks, store.search_sections):
        with pytest.raises(ValidationError, match="system_memory are not split into chunks: use search_memories"):
            search("a", Scope("system_memory"), Page())
