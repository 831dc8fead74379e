"""A query that is only a number, a code or an address is compared by its words, and a name mostly so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.test_exact import open_store
from vector_memory.domain import Scope
from vector_memory.search.question import is_name, is_reference
from vector_memory.store import SessionMemoryStore

REFERENCES = [
    "#42", "404", "2026-10-05", "10.0.0.1:8080", "v1.2.3", "1.2.3-rc1", "3f2a9c8", "3F2A9C8ED01B", "CVE-2024-1234",
    "E0502", "550e8400-e29b-41d4-a716-446655440000", "https://acme.io/a?b=c", "acme.io/a/b", "ann@acme.io", "#41, #42",
    "src/a.py", "/docs/a-b/c.html", "task #42", "Task #42, memory #99", "What happened on 2026-03-14?", "14 May 2026",
    "What happened at 2:30?",
]  # fmt: skip
MEANINGFUL = [
    "fix #42", "python3", "sha256", "utf-8", "store_report", "getUserById", "defaced", "facade", "and/or", "H2O", "",
    "what changed in v1.2.3", "Who was ill on 2026-03-14?", "What?", "--flag", "acme.io", "HTTP",
]  # fmt: skip
NAMES = [
    "store_report", "MAX_QUERY", "getUserById", "getUserById()", "`HTTPServer`", "settings.py", "Cargo.toml", "std::io",
    "acme.queue.put_back()", "--dry-run", "-rf", "store_report #42", "settings.py, store.py", "_private_name",
]  # fmt: skip
OTHERS = ["", "facade", "python3", "and/or", "self-care", "what is store_report", "___", "-", "- a", "Kestrel", "5 MB"]
REPORTS = Scope("report", session_id="s")


@pytest.mark.parametrize("query", REFERENCES)
def test_numbers_codes_and_addresses_are_references(query: str) -> None:
    assert is_reference(query)


@pytest.mark.parametrize("query", MEANINGFUL)
def test_words_and_names_are_none(query: str) -> None:
    assert not is_reference(query)


@pytest.mark.parametrize("query", NAMES)
def test_names_of_functions_classes_and_files_are_names(query: str) -> None:
    assert is_name(query)
    assert not is_reference(query)


@pytest.mark.parametrize("query", OTHERS)
def test_other_words_are_no_names(query: str) -> None:
    assert not is_name(query)


@pytest.mark.parametrize(
    "part", ["a", "1", "a.", "a/", "/", "@", "-1", "a-", "1.", "a1", "a_", "aB", "a::", "--a", "_"]
)
def test_a_long_word_takes_no_longer_than_its_length(part: str) -> None:
    """The longest query is judged at once: a pattern that tries every division would never end."""
    assert is_reference(part * 5_000 + "!~") is False
    assert is_name(part * 5_000 + "!~") is False


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        for text in ("a b c 3f2a9c8ed01b4c5d6e7f", "a b 3f2a9c8aaa", "c d e f"):
            opened.store_memory("report", text, session_id="s")
        yield opened


def test_only_texts_with_the_hash_are_found_and_confidence_is_high(store: SessionMemoryStore) -> None:
    found = store.search_chunks("3f2a9c8ed01b4c5d6e7f", REPORTS)
    assert [hit.memory_id for hit in found.results] == [1, 2]
    assert found.confidence == "strong"
    assert {hit.similarity for hit in found.results} == {None}
    assert {tuple(hit.sources) for hit in found.results} == {("keyword",)}


WITH_HASH = "a b 3f2a9c8ed01b4c5d6e7f f"
FOUND_BY = {
    "3f2a9c8ed01b": WITH_HASH, "3f2a9c8e": WITH_HASH, "3f2a9c8ed01b4c5d6e7f8091a2b3c4d5e6f70819": WITH_HASH,
    "24380474": "a 24380474a9c8ed01b4c5 f", "v1.26.4": "a 1.26.4 f",
}  # fmt: skip


@pytest.mark.parametrize("asked", FOUND_BY)
def test_the_beginning_of_a_hash_all_of_it_and_a_version_with_a_v_added_are_found_with_high_confidence(
    store: SessionMemoryStore, asked: str
) -> None:
    """Whatever of a hash the text has: the rest of it is no other word that is missing there."""
    wanted = store.store_memory("report", FOUND_BY[asked], session_id="t").memory_id
    found = store.search_chunks(asked, Scope("report", session_id="t"))
    assert ([hit.memory_id for hit in found.results], found.confidence) == ([wanted], "strong")


@pytest.mark.parametrize("text", ["3f2a9c8ed01b4c5d6e7f", "550e8400-e29b-41d4-a716-446655440000"])
def test_a_hash_or_uuid_in_capitals_is_found_as_well_as_in_small_letters(store: SessionMemoryStore, text: str) -> None:
    store.store_memory("report", f"a b {text} f", session_id="t")
    small, capitals = (store.search_chunks(query, Scope("report", session_id="t")) for query in (text, text.upper()))
    assert capitals.confidence == "strong"
    assert [hit.score for hit in capitals.results] == [hit.score for hit in small.results]


def test_a_hash_that_is_nowhere_finds_nothing_and_says_so(store: SessionMemoryStore) -> None:
    found = store.search_chunks("9999999abc", REPORTS)
    assert (found.results, found.confidence) == ([], "weak")
    assert "contains any of these words" in (found.message or "")
    elsewhere = store.search_chunks("3f2a9c8ed01b4c5d6e7f", Scope("report", session_id="t"))
    assert elsewhere.confidence == "weak"
    assert elsewhere.elsewhere == {"other_sessions": 1}


def test_by_meaning_only_a_reference_is_compared_by_meaning(store: SessionMemoryStore) -> None:
    found = store.search_chunks("3f2a9c8ed01b4c5d6e7f", REPORTS, mode="vector")
    assert len(found.results) == 3
    assert all(hit.similarity is not None for hit in found.results)
