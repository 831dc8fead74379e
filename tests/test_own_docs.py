"""The project's documentation, searched with the real model: natural questions find the page that answers them."""

from collections.abc import Iterator

import pytest

from faults.effort import effort
from vector_memory.cli.demo import PROJECT_DOCS, PROJECT_QUESTIONS
from vector_memory.domain import Page, Scope
from vector_memory.store import SessionMemoryStore

RIVALS = ("questions", "storage", "moving", "reliability", "orchestrators", "plugin", "security", "chunking")
"""Small pages with something on the same topics: an ordinary run searches only these."""

ANSWERED = {
    "where are my memories stored": {"Where are my memories stored?"},
    "how do I back up": {"How do I back up my memory?"},
    "how do I change the embedding model": {"How do I change the embedding model?", "reembed"},
    "how do I delete a memory": {"How do I delete a memory?", "delete", "delete_memory"},
    "does it work without internet": {"Does it work without internet?"},
    "how do I connect Claude Code": {"How do I connect Claude Code?"},
    "how do agents share what they found": {"How do agents share what they found?"},
    "what happens when two servers write at the same time": {"What happens when two servers write at the same time?"},
    "how long can a text be": {"How long can a text be?"},
}


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """A memory of the documentation."""
    pages = effort(quick=[PROJECT_DOCS / f"{name}.md" for name in RIVALS], long=sorted(PROJECT_DOCS.glob("*.md")))
    with SessionMemoryStore(tmp_path_factory.mktemp("docs") / "memory.db") as store:
        for page in pages:
            store.store_memory("report", page.read_text(encoding="utf-8"), session_id="docs")
        yield store


@pytest.mark.parametrize("question", ANSWERED)
def test_a_natural_question_finds_its_answer_first(question: str, docs: SessionMemoryStore) -> None:
    (first,) = docs.search_chunks(question, Scope("report"), Page(limit=1)).results
    assert first.header_path.rpartition("# ")[2] in ANSWERED[question]


def test_the_demos_questions_find_what_answers_them(docs: SessionMemoryStore) -> None:
    """Each at its grain, although question and answer hardly share a word."""
    chunk, section, document, _ = PROJECT_QUESTIONS
    (fine,) = docs.search_chunks(chunk, Scope("report"), Page(limit=1)).results
    assert "the server never uses the network" in " ".join(fine.chunk_content.split())
    (medium,) = docs.search_sections(section, Scope("report"), Page(limit=1)).results
    assert "power" in medium.section_content
    (coarse,) = docs.search_documents(document, Scope("report"), Page(limit=1), order="relevance").results
    assert coarse.title == "Several agents, one memory"
