"""The words of a unit are also those of its memory's title and of the headings above it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import execute
from search.test_exact import open_store
from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.errors import DatabaseLockError
from vector_memory.search.explain import ExplainRequest
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.write_lock import LOCK_ADVICE
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.terms import searchable_text
from vector_memory.writing import background
from waiting import eventually

REPORT = """# Outage of the ledger

Nothing was booked.

## Cause

### Nightly job

It waited for a lock. The lock was held for an hour by a connection that nobody had closed, because nobody knew of it.
The job was started again by hand, and then it went through. It took ten minutes, as on all other days before.

## Remedy

A limit of ten seconds.
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        opened.store_memory("report", REPORT, title="Incident 4711", session_id="s", agent_id="x")
        opened.store_memory("report", REPORT.replace("hour", "day"), session_id="s", agent_id="x")
        opened.store_memory("input_prompt", "Why was it late?", title="Question of the auditor", session_id="s")
        opened.store_memory("knowledge_base", "Wait ten seconds.", title="Timeouts of jobs", agent_id="x")
        yield opened


def chunks(store: SessionMemoryStore, query: str) -> list[Any]:
    return store.search_chunks(query, Scope("report"), Page(limit=20), mode=SearchMode.KEYWORD).results


def memories(store: SessionMemoryStore, query: str, kind: str) -> list[int]:
    search = store.search_memories if kind == "input_prompt" else store.search_documents
    return [found.id for found in search(query, Scope(kind), mode=SearchMode.KEYWORD).results]


def test_a_memory_is_found_by_a_word_that_only_its_title_has(store: SessionMemoryStore) -> None:
    assert memories(store, "incident", "report") == [1]
    assert memories(store, "auditor", "input_prompt") == [3]
    assert memories(store, "timeout", "knowledge_base") == [4]


def test_all_chunks_under_a_heading_are_found_by_its_words(store: SessionMemoryStore) -> None:
    found = chunks(store, "nightly")
    assert {chunk.memory_id for chunk in found} == {1, 2}
    assert all(chunk.header_path.endswith("> ### Nightly job") for chunk in found)
    assert any("Nightly" not in chunk.chunk_content for chunk in found)
    assert not {chunk.header_path for chunk in chunks(store, "remedy")} & {chunk.header_path for chunk in found}


def test_a_title_that_is_also_a_heading_counts_once() -> None:
    assert searchable_text("Outage", ("# Outage", "## Cause"), "A lock.") == "Outage\nCause\nA lock."
    assert searchable_text(None, ("## Cause",), "## Cause\n\nA lock.") == "Cause\n## Cause\n\nA lock."
    assert searchable_text("", (), "A lock.") == "A lock."


def test_what_is_found_by_a_title_shows_the_text_as_it_is(store: SessionMemoryStore) -> None:
    document = store.reconstruct_document(1).content or ""
    found = chunks(store, "incident")
    assert found
    for chunk in found:
        assert document[chunk.content_start :].startswith(chunk.chunk_content)
        assert chunk.title == "Incident 4711"


def test_a_question_whose_words_are_in_the_text_and_the_headings_is_answered_with_high_confidence(
    store: SessionMemoryStore,
) -> None:
    assert store.search_chunks("nightly lock hour", Scope("report")).confidence == "strong"


def test_a_trace_tells_which_words_only_the_title_or_the_headings_have(store: SessionMemoryStore) -> None:
    trace = store.explaining.explain("incident lock hour", Scope("report"), ExplainRequest(Page(limit=20)))
    [told] = [one for one in trace["candidates"] if one["memory_id"] == 1 and "hour" in one["has"]]
    assert (told["has"], told["in_headings"], told["lacks"]) == (["incid", "lock", "hour"], ["incid"], [])


@pytest.mark.parametrize("failures", [0, 2])
def test_a_server_indexes_outdated_words_again_in_the_background_also_if_others_keep_the_memory_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr(background, "LEASE_SECONDS", 0.01)
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        store.store_memory("report", REPORT, session_id="s", agent_id="x")
        execute(store, "delete from keyword_postings")
        execute(store, "update keyword_blocks set rules = 0")
    with open_store(path) as store:
        index_again, failed = KeywordIndex.index_again, []

        def locked(words: KeywordIndex) -> bool:
            if len(failed) < failures:
                failed.append(words)
                raise DatabaseLockError(LOCK_ADVICE)
            return index_again(words)

        monkeypatch.setattr(KeywordIndex, "index_again", locked)
        assert not chunks(store, "nightly")
        store.start_background_work()
        eventually(lambda: bool(chunks(store, "nightly")))
